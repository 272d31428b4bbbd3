"""How good a ranker is: metrics of ranked lists, the lists they are taken over, the controls beside them."""
