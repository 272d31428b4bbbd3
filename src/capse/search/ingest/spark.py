"""A Spark session for the pipeline, as the environment configures it; what Spark itself says goes into a file.

Spark's master, memory and the like come from its own configuration (``SPARK_CONF_DIR``, ``PYSPARK_SUBMIT_ARGS``). On a
cluster the output folder, in which the tables wait between steps, has to be on a file system that all its machines see.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from capse.errors import MissingExtraError, SettingsError


@contextmanager
def spark_backend(scratch: Path) -> Iterator[Any]:
    """An Ibis backend on the session that is running, which then stays, or on one of its own."""
    try:
        import ibis
        from pyspark.errors import PySparkRuntimeError
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingExtraError("--engine spark", "spark") from error
    running = SparkSession.getActiveSession()
    said = scratch / "spark.log"
    try:
        with _standard_error_into(said):
            session = running or (
                SparkSession.builder.appName("capse search ingest")
                .config("spark.local.dir", str(scratch / "spill"))
                .config("spark.ui.enabled", "false")
                .config("spark.ui.showConsoleProgress", "false")
                .getOrCreate()
            )
    except PySparkRuntimeError as error:
        last = (said.read_text(errors="replace").strip().splitlines() or ["it does not say why"])[-1]
        raise SettingsError(f"Spark does not start ({last})", "install Java 17 and set JAVA_HOME") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # PySpark and Ibis call what pandas is giving up
            yield ibis.pyspark.connect(session)
    finally:
        if running is None:
            session.stop()


@contextmanager
def _standard_error_into(path: Path) -> Iterator[None]:
    """Let processes that are started meanwhile, Java for one, write their errors into a file for as long as they live.

    Java warns of its own modules before any of Spark's settings could silence it.
    """
    sys.stderr.flush()
    ours = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(ours, 2)
        os.close(ours)
