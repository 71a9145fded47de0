"""Attention of a translation: terminal, pictures, page, numbers."""
