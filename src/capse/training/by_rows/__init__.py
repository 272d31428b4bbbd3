"""Steps that touch the rows of the entity table that a batch names, in one process or in many."""
