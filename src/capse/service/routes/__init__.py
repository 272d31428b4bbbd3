"""One file per resource."""

from capse.service.routes import events, explain, names, operation, predict, rerank, samples, score, users

ROUTERS = [
    operation.router,
    names.router,
    predict.router,
    score.router,
    explain.router,
    rerank.router,
    samples.router,
    events.router,
    users.router,
]
