"""Personalised search: from a click log to results re-ranked for each user.

    ingest       foreign logs -> one canonical folder
    logs         that folder as a `SearchLog`; what was known at each impression
    bias         where people look, estimated from their clicks
    vectors      documents and queries as vectors
    users        profiles of users, made of the documents they clicked
    features     what SP knows of a (query, user, document)
    evaluation   metrics of rankings, and the controls beside them
    rankers      baselines, LambdaMART, neural models
    serving      a trained run that re-ranks one list for one user

Each imports those above it only (`evaluation` and `features` do not know each other). Training is in
`capse.experiments.search`.
"""
