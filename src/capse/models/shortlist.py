"""A trained scorer made ready for short lists: one query, one user, a page of documents."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from capse.kernels.shortlist import ShortLists
from capse.models.base import Scorer
from capse.models.capse import CapsE
from capse.models.convkb import ConvKB

Float32s = npt.NDArray[np.float32]


class ListScorer:
    """The scores of ``scorer`` without what torch costs per call; it does not follow a training."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer.eval()
        stage = scorer._stage() if isinstance(scorer, CapsE | ConvKB) else None
        self._lists = ShortLists(stage) if stage is not None and ShortLists.serve(stage) else None
        scale = scorer.scale if isinstance(scorer, CapsE) else None
        self._gamma = np.float32(1.0 if scale is None else scale.detach().item())

    def score(self, h: Float32s, r: Float32s, candidates: Float32s) -> Float32s:
        """Scores (C,) of candidates (C, k) as tails of h (k,) and r (k,); equal candidates get equal scores."""
        if self._lists is not None:
            return self._lists.score(h, r, candidates) * self._gamma
        with torch.inference_mode():
            scores = self.scorer.score_triples(*(torch.from_numpy(x) for x in (h, r, candidates)))
        return np.asarray(scores.numpy())
