"""Where text comes from: corpora by name, downloads, archives, the Hugging Face hub."""
