"""Corpora by name: downloads, archives, test sets; what is fetched lies in a cache."""
