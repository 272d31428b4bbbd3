"""What the service must not forget: events, what they made of each user, and API keys.

>>> import tempfile
>>> def clicked(state, event):
...     documents = (state or {}).get("documents", [])
...     return {"documents": [*documents, event.document]} if event.kind == "click" else state
>>> store = Store.open(tempfile.mkdtemp() + "/capse.db", clicked)
>>> click = Event(id="e1", kind="click", user="ada", time=1_000_000, document="d7")
>>> store.add([click]), store.add([click]), store.state("ada")
(['accepted'], ['repeated'], {'documents': ['d7']})
>>> store.close()
"""

from __future__ import annotations

from capse.service.store.event import Event, Satisfaction
from capse.service.store.folding import Fold, Outcome, State
from capse.service.store.keys import SCOPES, Key
from capse.service.store.store import Store
from capse.service.store.user_data import Deletion, UserDescription

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
