"""Figures and pages from recorded results; plots take data, never models."""
