"""Text → text by a model: sentences, checks, retries, glossary, structured documents."""
