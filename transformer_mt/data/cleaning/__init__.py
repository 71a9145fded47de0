"""Which pairs are good enough to train on, and in which form."""
