"""Losses, negatives, objectives, optimisers, checkpoints and the loop."""
