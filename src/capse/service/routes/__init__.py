"""One file per resource."""

from capse.service.routes import names, operation, predict, score

ROUTERS = [operation.router, names.router, predict.router, score.router]
