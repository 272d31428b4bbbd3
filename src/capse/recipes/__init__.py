"""The recipes of capse itself: for graphs here, for search in `search/`."""
