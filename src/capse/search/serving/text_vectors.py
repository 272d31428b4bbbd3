"""The vectors of texts, each worked out once: documents that a run does not know come again and again."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

from capse.arrays import Float32s
from capse.search.vectors.vector_space import VectorSpace

KEPT = 10_000  # vectors, of the texts that were asked for most lately


class TextVectors:
    """What texts are in a space. Kept by what they say, not by an id: whoever says the same gets the same."""

    def __init__(self, space: VectorSpace) -> None:
        self.space = space
        self._kept: OrderedDict[bytes, Float32s] = OrderedDict()
        self._lock = threading.Lock()

    def vector(self, title: str, text: str) -> Float32s:
        """(k,) of a text; several threads may ask."""
        key = hashlib.blake2b(f"{title}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        found = self.space.document(text, title=title)
        with self._lock:
            self._kept[key] = found
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found
