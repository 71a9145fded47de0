"""The loss, the optimizer, checkpoints and the training loop."""
