"""What the service must not forget: events, what they made of each user, and API keys.

>>> import tempfile
>>> def clicked(state, event):
...     documents = (state or {}).get("documents", [])
...     return {"documents": [*documents, event.document]} if event.kind == "click" else state
>>> store = Store.open(tempfile.mkdtemp() + "/capse.db", clicked)
>>> click = Event("e1", "click", "ada", "s1", time=1_000_000, query="engine", document="d7")
>>> store.add([click]), store.add([click]), store.state("ada")
(['accepted'], ['repeated'], {'documents': ['d7']})
>>> store.close()
"""

from __future__ import annotations

from capse.service.store.batch import Fold, Outcome, State
from capse.service.store.events import Event, Satisfaction
from capse.service.store.keys import SCOPES, Key
from capse.service.store.store import Store
from capse.service.store.users import Deletion, UserDescription

__all__ = [
    "SCOPES",
    "Deletion",
    "Event",
    "Fold",
    "Key",
    "Outcome",
    "Satisfaction",
    "State",
    "Store",
    "UserDescription",
]
