"""Languages, scripts, sentences, words. Knows nothing of models or files."""
