"""Texts as vectors: vocabularies, topics, encoders, and the space of document and query vectors made from them."""
