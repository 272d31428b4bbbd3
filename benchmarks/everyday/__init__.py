"""Everyday features measured on real graphs, recorded under results/everyday.

    python -m benchmarks.everyday NAME ... [SEED ...]

Names: rules, classification, fold_in, fold_in_small, explanations, exchange, costs.

Not speed beside a peer, as in the package above, but what a feature is worth. Needs ``CAPSE_DATA``. A page is rendered
from the records by ``python tools/record_results.py``.
"""
