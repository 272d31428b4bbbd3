"""A trained run behind HTTP: ask the graph, re-rank a search, learn from the next click.

settings      what the service is told when it starts
limits        what it and its store accept at most
app           the application: middleware, endpoints, start and stop
endpoints     ours and those of other packages, and what they may use
routes        our endpoints: one file per resource, with the schemas of what goes in and comes out
loaded_models the runs in service
graph_model   a graph run that answers questions
search_model  a search run: lists re-ranked for users, and what is remembered of them
trial         two search runs at once: which ranks for whom
name_index    what people type, and which entities and relations they may mean by it
state         what lives as long as the process, and how a new run takes an old one's place
batching      questions of many requests, scored in one call
problems      every error as problem+json
guard         who may: keys, scopes, rates
rates         how often a key may ask, over all workers
bodies        request bodies of bounded size, time and depth
observe       JSON logs and Prometheus metrics, without personal data
protocol      connections that may not be held open by slow clients
store         events, what is remembered of users, API keys: durable
streams       events from a stream into the store, in a process of its own
head          HEAD wherever there is a GET
paths         parameters of paths that hold any text
web           the page's files
server        the listening socket
worker        one process that answers, and its signals
supervisor    several of them, replaced when they die
"""
