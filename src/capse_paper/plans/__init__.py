"""Which runs and rankers the tables and figures are made of."""
