"""What is kept of runs, grids and rankers, read and checked."""
