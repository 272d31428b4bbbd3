"""Link prediction: ranks of held-out triples, the best completions of a query, probabilities, explanations."""
