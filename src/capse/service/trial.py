"""Two runs at once: which of them ranks for whom.

A user's place between 0 and 1 comes from a hash of the trial's name and the user, so it is the same in every worker,
after every start and with every share; another trial deals anew.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

SPAN = 2**64


@dataclass(frozen=True)
class Trial:
    """The run that is served is ``a``, the one against it ``b``."""

    name: str
    share: float = 0.5  # of users who get b
    interleaved: bool = False  # both rank for everybody, in one list

    def arm(self, user: str) -> str:
        """a or b.

        >>> trial = Trial("spring", share=0.25)
        >>> trial.arm("ada"), round(sum(trial.arm(str(n)) == "b" for n in range(4_000)) / 4_000, 1)
        ('b', 0.3)
        """
        return "b" if place(self.name, user) < self.share else "a"


def place(name: str, user: str) -> float:
    """Of a user in a trial, from 0 to below 1."""
    content = name.encode() + b"\0" + user.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8, person=b"capse trial").digest(), "big") / SPAN
