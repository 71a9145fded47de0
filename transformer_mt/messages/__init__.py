"""What tmt says to people, in their language."""
