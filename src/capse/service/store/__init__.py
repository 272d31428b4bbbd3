"""What the service must not forget: events, what they made of each user, facts of a graph, and API keys.

>>> import tempfile
>>> store = Store.open(tempfile.mkdtemp() + "/capse.db")
>>> click = Event(id="e1", kind="click", user="ada", time=1_700_000_000_000_000, document="d7")
>>> store.add([click]), store.add([click]), [one.document for one in store.state("ada").clicks]
(['accepted'], ['repeated'], ['d7'])
>>> store.close()
"""

from __future__ import annotations

from capse.service.store.changes import Change
from capse.service.store.event import Event
from capse.service.store.facts import Fact
from capse.service.store.folding import Outcome
from capse.service.store.keys import SCOPES, Key
from capse.service.store.lists import KeptList, KeptText
from capse.service.store.store import Store
from capse.service.store.user_data import Deletion, UserDescription

__all__ = [
    "SCOPES",
    "Change",
    "Deletion",
    "Event",
    "Fact",
    "KeptList",
    "KeptText",
    "Key",
    "Outcome",
    "Store",
    "UserDescription",
]
