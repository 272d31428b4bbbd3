"""What people see of a training on lists."""

from __future__ import annotations

from typing import Any

from capse.cli.display import TrainingProgress, say


class ListProgress(TrainingProgress):
    """A bar over all epochs, and a line for each validation that found something better."""

    unit = "lists"

    def epoch(self, record: dict[str, Any]) -> None:
        if "validation" not in record:
            super().epoch(record)
        elif record["best_epoch"] == record["epoch"]:
            found = record["validation"]
            say(
                f"epoch {record['epoch']}: loss {record['loss']:.4f}, validation MRR {found['mrr']:.4f}, "
                f"Hits@1 {100 * found['hits@1']:.1f} % (best so far)"
            )
