"""All rules, in the order of their ids, family by family."""

from __future__ import annotations

from deltacli.checking.book import RuleBook
from deltacli.validate.rules import (
    actions,
    checkpoint_columns,
    checkpoints,
    checksums,
    conflicts,
    features_in_use,
    files,
    hint,
    json_lines,
    log,
    mapping,
    metadata,
    partitions,
    properties,
    protocol,
    stats,
    storage,
    vectors,
    widening,
)

_FAMILIES: dict[str, str] = {
    "LOG": "the files of the log",
    "JSN": "the lines of commits",
    "ACT": "actions",
    "CFL": "what must not stand together",
    "PRT": "protocol and features",
    "MET": "schema and properties",
    "CMP": "column mapping",
    "PAR": "partition values",
    "STA": "statistics",
    "CKP": "checkpoints",
    "LCP": "the last checkpoint hint",
    "CRC": "version checksums",
    "DVX": "deletion vectors",
    "DAT": "data files",
    "TYW": "type widening",
    "CDF": "the change data feed",
    "ROW": "row tracking",
    "ICT": "in-commit timestamps",
    "STO": "storage",
    "DOM": "domains",
    "TXN": "transactions",
    "CAT": "catalogs",
    "RUN": "the checks themselves",
}
_MODULES = (
    actions, checkpoint_columns, checkpoints, checksums, conflicts, features_in_use, files, hint,
    json_lines, log, mapping, metadata, partitions, properties, protocol, stats, storage, vectors,
    widening,
)  # fmt: skip
BOOK = RuleBook(_FAMILIES, _MODULES)
