"""A search log in memory and on disk: impressions, the documents they show, what was known when, and simulated logs."""
