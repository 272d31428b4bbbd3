"""Joins data, training and evaluation: recipes and fit."""
