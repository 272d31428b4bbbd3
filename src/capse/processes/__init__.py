"""Several processes that make one result: who they are, what they exchange, and sums that do not depend on how many."""
