"""Trains cases in each process of a group and keeps what process 0 ends with: FOLDER TYPE,TYPE CASE,CASE."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from capse.processes.group import joined
from capse.training.by_rows.learner import Division
from tests.training.by_rows.cases import end_of

WAYS = {"data": False, "rows": True}
TYPES = {"float32": torch.float32, "float64": torch.float64}

if __name__ == "__main__":
    folder, types, cases = Path(sys.argv[1]), sys.argv[2].split(","), sys.argv[3].split(",")
    with joined(60) as group:
        for case in cases:
            for way, sharded in WAYS.items():
                for name in types:
                    model, losses = end_of(case, "adagrad", Division(8, group, sharded=sharded), TYPES[name])
                    tensors = {key: x.detach().clone() for key, x in model.state_dict().items()}
                    if sharded:
                        tensors["entities"] = torch.cat(group.gather(tensors["entities"]))
                    if group.leads:
                        save_file(tensors, folder / f"{case}-{way}-{name}", {"losses": json.dumps(losses)})
