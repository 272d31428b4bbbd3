"""Knowledge graphs: triples and vocabularies, readers and writers, benchmarks, statistics, link prediction."""
