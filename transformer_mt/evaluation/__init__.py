"""Scores of translations, differences between systems, and their significance."""
