"""Motifs of a graph: how often each occurs, and what adding one edge changes.

``keys``       what a motif is called by, as one number
``graph``      the edges of each node, sorted so that two nodes' neighbours can be compared
``reference``  a whole graph recounted in plain Python: the definition that everything else is held to
``counting``   the same counts by compiled loops
``changes``    what one more edge changes, without recounting
``scoring``    w·Δf of many candidates, in threads
``fitting``    the weights w, by ranking true edges above drawn ones

Pinter and Eisenstein, Predicting Semantic Relations using Global Graph Properties, EMNLP 2018. All nodes of a motif are
distinct, so self-loops are in none but a feature of their own. Written from the description, for graphs of any size.
"""
