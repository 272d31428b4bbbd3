"""In which order lists were shown that were re-ranked: what position bias is about, where the engine's rank is not.

On disk, in the log's folder, if the source knows it:

    ranks.parquet     impression (the source's id), document, rank (from 1)
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from capse.arrays import Int32s
from capse.errors import DataError

FILE = "ranks.parquet"
SCHEMA = pa.schema([("impression", pa.string()), ("document", pa.string()), ("rank", pa.int32())])


def load_ranks(log: Path, position: Int32s, rows: Callable[[pa.Table], pa.Array]) -> Int32s | None:
    """(m,) the place at which each result was shown; None where the log does not say.

    What is not said is taken to be at the engine's ``position``; ``rows`` finds the table's row of each result.
    """
    if not (log / FILE).is_file():
        return None
    try:
        table = pq.read_table(log / FILE).cast(SCHEMA)
        ranks = table["rank"].combine_chunks().take(rows(table)).fill_null(0).to_numpy(zero_copy_only=False)
    except (OSError, pa.ArrowException, KeyError) as error:
        raise DataError(f"{log / FILE} is damaged ({str(error).splitlines()[0]})", "ingest the log again") from error
    return np.where(ranks > 0, ranks, position).astype(np.int32)
