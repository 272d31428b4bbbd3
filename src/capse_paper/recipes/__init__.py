"""Recipes of the paper's runs: for graphs here, for search in `search/`, and the paper's grids in `grids/`."""
