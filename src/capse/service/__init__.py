"""A trained run behind HTTP: ask the graph, re-rank a search, learn from the next click.

settings     what the service is told when it starts, and the limits on what it accepts
app          the application: middleware, routers, start and stop
routes       one file per resource; schemas beside them say what goes in and what comes out
models       the loaded runs
state        what lives as long as the process, and how a new run takes an old one's place
names        what people type, and which entities and relations they may mean by it
search       lists re-ranked for users, and what is remembered of them
batching     questions of many requests, scored in one call
problems     every error as problem+json
guard        who may: keys, scopes, rates
bodies       request bodies of bounded size, time and depth
observe      JSON logs and Prometheus metrics, without personal data
protocol     connections that may not be held open by slow clients
store        events, what is remembered of users, API keys: durable
web          the page's files
server       processes, signals, the listening socket
"""
