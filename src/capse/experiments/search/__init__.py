"""Search logs joined with training: recipes, fit, the blend, and recorded results."""
