"""Clean pairs → token ids on disk."""
