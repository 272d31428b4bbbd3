"""Lists as vectors: what is asked, who asks and what is shown, as a network sees them beside features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from capse.arrays import Float32s, Float64s, Int64s
from capse.search.logs.search_log import SearchLog
from capse.search.users.profiles import user_vectors
from capse.search.vectors.vector_space import VectorSpace


@dataclass(frozen=True)
class ListVectors:
    """Vectors of k numbers, of lists that stand one after the other."""

    queries: Float32s  # (lists, k)
    users: Float32s  # (lists, k) zeros where nothing is known
    documents: Float32s  # (rows, k)
    position: Float64s  # (rows,) the engine's rank, from 1

    @classmethod
    def of_log(cls, log: SearchLog, impressions: Int64s, cutoffs: Int64s, space: VectorSpace) -> ListVectors:
        """Those of a log, query by query as a service finds them, so to the same bits."""
        vectors = space.vectors(log)
        users, _ = user_vectors(log, vectors.documents, cutoffs, "nearest")
        rows, queries = log.rows(impressions), []
        for impression in impressions.tolist():
            of_list = slice(log.offsets[impression], log.offsets[impression + 1])
            order = np.argsort(log.position[of_list], kind="stable")
            shown = vectors.documents[log.document[of_list][order]]
            queries.append(space.query(log.queries[log.query[impression]], shown))
        found = np.array(queries, np.float32).reshape(len(impressions), space.width)
        return cls(found, users[impressions], vectors.documents[log.document[rows]], log.position[rows].astype(float))

    @classmethod
    def of_list(
        cls, query: Float32s, user: Float32s | None, documents: Sequence[Float32s], position: Sequence[int]
    ) -> ListVectors:
        """Those of one list."""
        known = np.zeros_like(query) if user is None else user
        return cls(query[None], known[None], np.stack(documents), np.array(position, np.float64))

    def take(self, lists: Int64s, rows: Int64s) -> ListVectors:
        """Some lists, of which these are the rows."""
        return ListVectors(self.queries[lists], self.users[lists], self.documents[rows], self.position[rows])

    def followed_by(self, other: ListVectors) -> ListVectors:
        """These lists and then others."""
        names = ("queries", "users", "documents", "position")
        return ListVectors(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def without_user(self) -> ListVectors:
        return replace(self, users=np.zeros_like(self.users))
