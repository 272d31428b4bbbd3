"""The service: what a trained run answers over HTTP, and what it learns from clicks."""
