"""Text: sources, cleaning, tokenizer, encoded corpus, batches."""
