"""Rules about options, which Paimon checks when a table is made or changed (facts 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deltacli.checking.model import ERROR, WARNING, Finding, rule
from deltacli.paimon.subjects import Schema
from deltacli.paimon.types import contains_root, holds_blobs

_NESTED = frozenset(("ARRAY", "MULTISET", "MAP", "ROW"))


@rule("PMO001", ERROR, "Options have values that Paimon reads", of=Schema)
def options_can_be_read(one: Schema) -> Iterator[Finding]:
    """Numbers are numbers, switches are true or false, and names are of those that there are.

    Why: Paimon refuses the table; a `bucket` that is no number keeps it from reading the schema.
    Fix: set the option anew with `deltacli paimon alter TABLE 'set option KEY = VALUE'`.
    """
    for error in one.options.problems():
        yield Finding(str(error))


@rule("PMO002", ERROR, "The number of buckets is one", of=Schema)
def bucket_is_a_number_of_buckets(one: Schema) -> Iterator[Finding]:
    """`bucket` is positive, -1 (chosen as rows come), or -2 (later) with a primary key.

    Why: Paimon refuses the table.
    Fix: set `bucket` to the number that the files were written with.
    """
    bucket = one.options["bucket"]
    if bucket < 1 and bucket != -1 and not (bucket == -2 and one.schema.primary_keys):
        yield Finding(
            f"bucket {bucket} must be positive, -1 (dynamic or unaware), or -2 (postponed) with a "
            "primary key"
        )


@rule("PMO003", ERROR, "bucket-key and bucket go together", of=Schema)
def bucket_key_fits(one: Schema) -> Iterator[Finding]:
    """`bucket-key` names plain columns of the primary key, and an append table with buckets has it.

    Why: rows are spread over buckets by it. Tables of version 1 with one bucket need none, and
    for that reason Paimon cannot change them.
    Fix: restore the option; it cannot be changed once there is data.
    """
    schema, bucket = one.schema, one.options["bucket"]
    keys = one.options.columns("bucket-key")
    for name in one.missing(keys):
        yield Finding(f"bucket-key column {name!r} does not exist")
    for name in keys:
        if name in schema.partition_keys:
            yield Finding(f"bucket-key {name} is a partition key")
        elif schema.primary_keys and name in schema.by_name and name not in schema.primary_keys:
            yield Finding(f"bucket-key {name} must be part of the primary key")
        elif bucket != -1 and name in schema.by_name:
            root = schema.by_name[name].type.root
            if root in _NESTED:
                yield Finding(f"the type {root} is not allowed in bucket-key: {name}")
    if bucket == -1 and "bucket-key" in one.options.texts:
        yield Finding("bucket-key needs a fixed number of buckets, and bucket is -1")
    is_first = bucket == 1 and schema.version <= 1
    if bucket > 0 and not schema.primary_keys and not keys and not is_first:
        yield Finding(f"an append table with bucket = {bucket} needs a bucket-key")


@rule("PMO007", ERROR, "At least as many versions are kept as at most", of=Schema)
def retention_is_a_range(one: Schema) -> Iterator[Finding]:
    """The least number of snapshots and changelogs kept is positive and not above the most.

    Why: Paimon refuses the table.
    Fix: set `snapshot.num-retained.min` and `.max`, or those of changelogs.
    """
    rows = one.options["target-file-row-num"]
    if rows is not None and rows < 1:
        yield Finding("target-file-row-num should be at least 1")
    for what in ("snapshot", "changelog"):
        least, most = _retained(one, what, "min"), _retained(one, what, "max")
        if least < 1:
            yield Finding(f"{what}.num-retained.min should be at least 1")
        if least > most:
            yield Finding(f"{what}.num-retained.min {least} is larger than the max {most}")


def _retained(one: Schema, what: str, end: str) -> int:
    """How many are kept; of changelogs as many as of snapshots where nothing is said of them."""
    own = one.options[f"{what}.num-retained.{end}"]
    return int(one.options[f"snapshot.num-retained.{end}"] if own is None else own)


@rule("PMO008", ERROR, "Options name columns of the right type", of=Schema)
def options_name_columns(one: Schema) -> Iterator[Finding]:
    """Columns that options name exist, and have the types that they need.

    Why: Paimon refuses the table. A rename does not change these options.
    Fix: set the option to a column that is there, or remove it.
    """
    yield from _named(one, "rowkind.field", one.options.texts.get("rowkind.field"), ())
    yield from _named(
        one,
        "record-level.time-field",
        one.options.texts.get("record-level.time-field"),
        ("INT", "BIGINT", "TIMESTAMP", "TIMESTAMP_LTZ"),
    )
    for name in one.options.trimmed_columns("vector-field"):
        yield from _named(one, "vector-field", name, ("VECTOR",))
    for key in ("blob-field", "blob-descriptor-field", "blob-view-field"):
        for name in one.options.trimmed_columns(key):
            field = one.schema.by_name.get(name)
            if key == "blob-field" and field is not None and holds_blobs(field.type):
                continue
            yield from _named(one, key, name, ("BLOB",))
    for key in one.options.index_keys():
        for name in one.options.trimmed_columns(key):
            yield from _named(one, key, name, ("VECTOR",) if "vector" in key else ())


def _named(one: Schema, key: str, name: str | None, roots: tuple[str, ...]) -> Iterator[Finding]:
    if name is None:
        return
    field = one.schema.by_name.get(name)
    if field is None:
        yield Finding(f"{key} names the column {name!r}, which does not exist")
    elif roots and field.type.root not in roots:
        yield Finding(f"{key} names {name}, whose type {field.type.root} is not one of it")


@rule("PMO009", ERROR, "Row tracking fits the table", of=Schema)
def row_tracking_fits(one: Schema) -> Iterator[Finding]:
    """Row tracking is for append tables without buckets; data evolution and blobs need it.

    Why: Paimon refuses the table.
    Fix: these options cannot be changed once there is data: make the table anew.
    """
    schema, options = one.schema, one.options
    tracks, evolves = options["row-tracking.enabled"], options["data-evolution.enabled"]
    if tracks and (schema.primary_keys or options["bucket"] != -1):
        yield Finding("row-tracking.enabled needs an append table with bucket = -1")
    if evolves and not tracks:
        yield Finding("data-evolution.enabled needs row-tracking.enabled")
    if evolves and options["clustering.incremental"]:
        yield Finding("data-evolution.enabled does not go with clustering.incremental")
    blobs = [field.name for field in schema.fields if contains_root(field.type, "BLOB")]
    for name in blobs:
        if not holds_blobs(schema.by_name[name].type):
            yield Finding(f"{name}: BLOB is a column, or in an ARRAY or the values of a MAP")
    if blobs and not schema.primary_keys and not evolves:
        yield Finding(f"the BLOB column {blobs[0]} needs data-evolution.enabled")
    if blobs and len(blobs) == len(schema.fields):
        yield Finding("a table with BLOB columns needs others too")
    keys = (
        *schema.partition_keys,
        *schema.primary_keys,
        *options.columns("bucket-key"),
        *options.trimmed_columns("sequence.field"),
    )
    for name in blobs:
        if name in keys:
            yield Finding(f"the BLOB column {name} cannot be a key, or order rows")
    if blobs and schema.primary_keys:
        yield from _managed_blobs(one, blobs)


def _managed_blobs(one: Schema, blobs: list[str]) -> Iterator[Finding]:
    """What a table with a primary key cannot have beside BLOB columns in files of their own."""
    options = one.options
    inline = {
        name
        for key in ("blob-descriptor-field", "blob-view-field")
        for name in options.trimmed_columns(key)
    }
    if inline.issuperset(blobs):
        return
    for key, misfits in (
        ("merge-engine", options["merge-engine"] == "aggregation"),
        ("changelog-producer", options["changelog-producer"] != "none"),
        ("data-file.external-paths", "data-file.external-paths" in options.texts),
        ("pk-clustering-override", options["pk-clustering-override"]),
    ):
        if misfits:
            yield Finding(f"BLOB columns beside a primary key do not go with {key}")


@rule("PMO010", ERROR, "Options go together", of=Schema)
def options_go_together(one: Schema) -> Iterator[Finding]:
    """No option asks for what another one, or a table of this kind, does not have.

    Why: Paimon refuses the table.
    Fix: remove one of the options that the finding names.
    """
    options, keys = one.options, one.schema.primary_keys
    engine, deletes = options["merge-engine"], options["deletion-vectors.enabled"]
    clusters = options["pk-clustering-override"]
    ordered = options["sequence.snapshot-ordering"]
    checks = (
        (options["primary-key.nullable"] and not keys, "primary-key.nullable needs a primary key"),
        (
            deletes and engine == "first-row" and not clusters,
            "deletion vectors do not go with merge-engine first-row",
        ),
        (ordered and not keys, "sequence.snapshot-ordering needs a primary key"),
        (
            ordered and options.trimmed_columns("sequence.field"),
            "sequence.snapshot-ordering does not go with sequence.field",
        ),
        (ordered and not options["write-only"], "sequence.snapshot-ordering needs write-only"),
        (
            options["table-read.sequence-number.enabled"] and not keys,
            "table-read.sequence-number.enabled needs a primary key",
        ),
        (
            options["clustering.incremental"] and keys,
            "clustering.incremental does not go with a primary key",
        ),
        (
            options["clustering.incremental"]
            and options["bucket"] != -1
            and (options["bucket-append-ordered"] or deletes),
            "clustering.incremental with buckets needs bucket-append-ordered = false and no "
            "deletion vectors",
        ),
        (
            options["bucket"] == -1
            and not keys
            and options["full-compaction.delta-commits"] is not None,
            "full-compaction.delta-commits does not go with an append table with bucket = -1",
        ),
        (
            options["manifest-sort.enabled"]
            and not options["data-evolution.enabled"]
            and not one.schema.partition_keys,
            "manifest-sort.enabled needs partition keys",
        ),
        (
            clusters and not options["clustering.columns"],
            "pk-clustering-override needs clustering.columns",
        ),
        (
            clusters and not deletes and engine != "first-row",
            "pk-clustering-override needs deletion vectors",
        ),
        (
            clusters and engine not in ("deduplicate", "first-row"),
            f"pk-clustering-override does not go with merge-engine {engine}",
        ),
        (
            clusters and options.trimmed_columns("sequence.field"),
            "pk-clustering-override does not go with sequence.field",
        ),
        (
            clusters and options["record-level.expire-time"],
            "pk-clustering-override does not go with record-level.expire-time",
        ),
        (
            clusters and options["changelog-producer"] not in ("none", "input"),
            "pk-clustering-override goes with changelog-producer none and input only",
        ),
    )
    for holds, message in checks:
        if holds:
            yield Finding(message)


_START = (
    "scan.timestamp-millis", "scan.timestamp", "scan.snapshot-id", "scan.tag-name",
    "scan.file-creation-time-millis", "incremental-between-timestamp", "incremental-between",
    "incremental-to-auto-tag",
)  # fmt: skip
# Which options a way to start needs one of, and which may stand beside them.
_STARTS = {
    "from-timestamp": (("scan.timestamp-millis", "scan.timestamp"), ()),
    "from-snapshot": (("scan.snapshot-id", "scan.tag-name", "scan.watermark"), ()),
    "from-snapshot-full": (("scan.snapshot-id",), ()),
    "from-file-creation-time": (("scan.file-creation-time-millis",), ("scan.timestamp",)),
    "incremental": (
        ("incremental-between", "incremental-between-timestamp", "incremental-to-auto-tag"),
        (),
    ),
}


# Where nothing is said of the mode, the first of these does.
_DEFAULT_STARTS = (
    ("from-timestamp", ("scan.timestamp-millis", "scan.timestamp")),
    ("from-snapshot", ("scan.snapshot-id", "scan.tag-name", "scan.watermark", "scan.version")),
    ("from-file-creation-time", ("scan.file-creation-time-millis",)),
    ("from-creation-timestamp", ("scan.creation-time-millis",)),
    ("incremental", ("incremental-between", "incremental-between-timestamp")),
)


@rule("PMO011", ERROR, "A scan starts at one place", of=Schema)
def scan_starts_at_one_place(one: Schema) -> Iterator[Finding]:
    """The options that say where reading starts fit `scan.mode`, and only one of them is set.

    Why: Paimon refuses the table.
    Fix: remove the options that do not belong to the mode.
    """
    texts, mode = dict(one.options.texts), one.options["scan.mode"]
    if "log.scan.timestamp-millis" in texts:
        texts.setdefault("scan.timestamp-millis", texts["log.scan.timestamp-millis"])
    if mode == "default":
        mode = _default_start(texts)
    needed, beside = _STARTS.get(mode, ((), ()))
    given = [key for key in needed if key in texts]
    if needed and len(given) != 1:
        yield Finding(f"scan.mode {mode} needs one of {', '.join(needed)}")
    others = [key for key in _START if key in texts and key not in (*needed, *beside)]
    if others:
        yield Finding(f"{', '.join(others)} does not go with scan.mode {mode}")


def _default_start(texts: Mapping[str, str]) -> str:
    return next(
        (mode for mode, keys in _DEFAULT_STARTS if any(key in texts for key in keys)), "latest-full"
    )


@rule("PMO016", ERROR, "Keys stand in one place", of=Schema)
def keys_stand_in_one_place(one: Schema) -> Iterator[Finding]:
    """`primary-key` and `partition` are no options where the lists of keys are filled.

    Why: Paimon refuses the next version of the schema.
    Fix: remove the option with `deltacli paimon alter TABLE 'unset option KEY'`.
    """
    both = (("primary-key", one.schema.primary_keys), ("partition", one.schema.partition_keys))
    for option, keys in both:
        if option in one.options.texts and keys:
            yield Finding(f"the option {option} is set, and so are such keys: {', '.join(keys)}")


@rule("PMO012", WARNING, "Keys stand in their lists", of=Schema)
def keys_stand_in_their_lists(one: Schema) -> Iterator[Finding]:
    """`primary-key` and `partition` are no options in a schema file.

    Why: Paimon moves them to primaryKeys and partitionKeys with the next version, and refuses it
    if there are some.
    Fix: change anything with `deltacli paimon alter`, which moves them as Paimon does.
    """
    for option, member, keys in (
        ("primary-key", "primaryKeys", one.schema.primary_keys),
        ("partition", "partitionKeys", one.schema.partition_keys),
    ):
        if option in one.options.texts and not keys:
            yield Finding(f"{option} belongs in {member}, not in options")


@rule("PMO014", ERROR, "Branches that options name are there", of=Schema)
def named_branches_exist(one: Schema) -> Iterator[Finding]:
    """The branches of `scan.fallback-branch` and `scan.primary-branch` exist, and one is set.

    Why: Paimon refuses to write the next version.
    Fix: make the branch, or remove the option.
    """
    keys = ("scan.fallback-branch", "scan.primary-branch")
    named = {key: one.options.texts[key] for key in keys if one.options.texts.get(key, "").strip()}
    if len(named) > 1:
        yield Finding(f"{' and '.join(keys)} are both set")
    for key, branch in named.items():
        if one.branches and branch not in one.branches:
            yield Finding(f"{key} = {branch}: there is no such branch")
