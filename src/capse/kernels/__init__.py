"""Arrays in, arrays out: the formulas of the convolution-and-capsule stage and the loops that must be fast."""
