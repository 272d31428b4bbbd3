"""The limits on what the service and its store accept, all of them.

`docs/how-to/serve.md` tells them to those who ask.
"""

from __future__ import annotations

MAX_BODY = 4 * 2**20  # bytes of a request's body
MAX_HEADERS = 32 * 2**10  # bytes of a request's line and headers
HEADER_SECONDS = 10.0  # for them to arrive
BODY_SECONDS = 20.0  # for the body to arrive
READ_SECONDS = 20.0  # for a client to read on when it has stopped reading an answer
MAX_TEXT = 1_000  # characters of a label, a name or a title
MAX_QUERY = 1_000  # characters of a search query
MAX_ID = 200  # characters of the id of a user, session, document or event
MAX_DOCUMENT = 10_000  # characters of a document's text
MAX_TOP = 1_000  # answers to one question
MAX_QUERIES = 256  # questions in one request
MAX_ANSWERS = 20_000  # answers in one response
MAX_TRIPLES = 5_000  # triples to score in one request
MAX_DOCUMENTS = 200  # documents to re-rank in one request
MAX_LISTS = 64  # lists to re-rank in one request
MAX_EVENTS = 1_000  # events in one request, and in one call of the store
MAX_SHOWN = 1_000  # documents of an impression
MAX_TIME = 253_402_300_799_999_999  # microseconds since 1970: the last one of the year 9999
MAX_SECONDS = 1e9  # of a dwell
MAX_WAITING = 4_096  # questions that may wait to be scored
MAX_CONNECTIONS = 2_000  # at a time, in each worker
THREADS = 32  # that may wait for the database, in each worker: those that add events share a transaction
SHUTDOWN_SECONDS = 30  # for requests in flight when the service is told to stop
