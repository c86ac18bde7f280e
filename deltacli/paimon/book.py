"""All rules of Paimon tables, family by family."""

from __future__ import annotations

from deltacli.checking.book import RuleBook
from deltacli.paimon.rules import (
    columns,
    files,
    history,
    merging,
    options,
    references,
    storage,
    types,
)

BOOK = RuleBook(
    {
        "PMF": "Paimon: schema files",
        "PMT": "Paimon: field ids and types",
        "PMS": "Paimon: names and keys",
        "PMO": "Paimon: options",
        "PMH": "Paimon: from one version to the next",
        "PMR": "Paimon: what needs which version",
        "RUN": "the checks themselves",
    },
    (columns, files, history, merging, options, references, storage, types),
)
# What Paimon itself refuses when a table is made or changed.
ENFORCED = ("PMS", "PMO")
