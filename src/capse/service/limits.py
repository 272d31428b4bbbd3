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
REMEMBERED_TEXT = 2_000  # of them that are remembered with a click on a document that the run does not know
MAX_FIELDS = 100  # fields of a document, a request or a user
MAX_VALUES = 100  # texts in one of them
MAX_TOP = 1_000  # answers to one question
MAX_FACTS = 5_000  # of an entity in one response
MAX_QUERIES = 256  # questions in one request
MAX_ANSWERS = 20_000  # answers in one response
MAX_CANDIDATES = 10_000  # entities that may answer a question, where it names them
MAX_TRIPLES = 5_000  # triples to score in one request
MAX_NEW_FACTS = 100  # facts to add in one request
MAX_DOCUMENTS = 200  # documents to re-rank in one request
MAX_LISTS = 64  # lists to re-rank in one request
MAX_WORK = 2_000  # documents in all lists of a request; with reasons one counts as three
TEXT_WORK = 2_000  # characters of text that cost as much as another document
# What counts as one request against a key's rate; of larger ones each such part does.
DOCUMENTS_A_REQUEST = 50
QUESTIONS_A_REQUEST = 16
TRIPLES_A_REQUEST = 500
EVENTS_A_REQUEST = 50
FACTS_A_REQUEST = 5
MAX_EVENTS = 1_000  # events in one request, and in one call of the store
MAX_SHOWN = 1_000  # documents of an impression
MAX_SECONDS = 1e9  # of a dwell
MAX_DAYS = 3_650  # that lists and texts are kept
MAX_WAITING = 4_096  # questions that may wait to be scored
MAX_CONNECTIONS = 2_000  # at a time, in each worker
THREADS = 32  # that may wait for the database, in each worker: those that add events share a transaction
SHUTDOWN_SECONDS = 30  # for requests in flight when the service is told to stop
