"""Personalised search: from a click log to results re-ranked for each user.

A log is ingested (`capse.search.ingest`) into one canonical folder, read as a `SearchLog`. Documents, queries and users
become vectors (`topics`, `vectors`, `profiles`), rankers score the documents of each list, and `evaluation` compares
them without fooling oneself. Training lives in `capse.experiments.search`.
"""
