"""Runs in the forms of other programs: vectors as tables, indices for nearest neighbours, Hugging Face's folders."""
