"""Train, rank and record what a plan has and the results lack."""
