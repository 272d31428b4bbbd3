"""Answers of a finished run in another order, by the shape of the graph around them (M3GM)."""
