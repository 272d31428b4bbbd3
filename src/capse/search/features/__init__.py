"""The features of SP (Bennett et al. 2012; Vu et al. 2015), in groups that can be left out.

    rank        the engine's rank
    text        how query and document match, words only (`capse.search.features.text_match`)
    document    the document alone: its shape, and how often and how lately anyone clicked it and its neighbours
    aggregate   everyone's clicks on the document for this query, parts of it, and queries like it
    history     this user's and this session's clicks on the document and on documents like it
    profile     topics of the document beside those of the user's profiles, where vectors are given
    context     how long the list is, and how many clicks of user and session are known

A column's name begins with its group. `log_features` makes them of all lists of a log, `list_features` of one list from
what is remembered: both only gather what a `Given` is made of, and its numbers are the same.
"""

from __future__ import annotations

from capse.search.features.groups import COMPARED, GROUPS, WITHOUT_USER, Given, check_groups, feature_table
from capse.search.features.list_features import Catalogue, DocumentVectors, ShownList, list_features
from capse.search.features.log_features import log_features

__all__ = [
    "COMPARED",
    "GROUPS",
    "WITHOUT_USER",
    "Catalogue",
    "DocumentVectors",
    "Given",
    "ShownList",
    "check_groups",
    "feature_table",
    "list_features",
    "log_features",
]
