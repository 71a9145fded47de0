"""The Transformer: tensors in, tensors out; knows no text, files or processes."""
