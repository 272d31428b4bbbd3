"""A trained run at work: lists re-ranked for one user at a time, with reasons."""
