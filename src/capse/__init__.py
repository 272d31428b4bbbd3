"""Capsule-network embeddings for knowledge graph completion and search personalisation."""

__version__ = "0.1.0"
