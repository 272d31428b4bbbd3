"""Rankers of a log's lists: baselines, LambdaMART (SP and the blend) and trained runs of neural models."""
