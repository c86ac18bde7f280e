"""One Paimon table checked: each branch's files, schemas, history and references."""

from __future__ import annotations

from collections.abc import Sequence

from deltacli.checking.model import AnyRule, Level
from deltacli.checking.tally import Checked, FindingKey, Found, Rules, Tally
from deltacli.errors import DeltaCliError, FileMissing, NotFound, StorageError
from deltacli.paimon.book import BOOK
from deltacli.paimon.references import OnProgress, ReferenceScan
from deltacli.paimon.schema_file import BadSchema, TableSchema
from deltacli.paimon.subjects import (
    MissingSchema,
    Schema,
    SchemaFile,
    SchemaFolder,
    Step,
    Unreferenced,
)
from deltacli.paimon.table import Branch, SchemaListing, branch_names, list_schemas, read_schemas
from deltacli.storage import LogStore


def check_table(
    store: LogStore,
    rules: Sequence[AnyRule],
    *,
    most: int | None = 20,
    known: frozenset[FindingKey] = frozenset(),
    tells_each: bool = False,
    branch: Branch | None = None,
    on_progress: OnProgress | None = None,
) -> Checked:
    """What the rules find in one branch, or in all of them.

    `version` of the answer is the newest schema of the first. Raises NotFound if there is none.
    """
    tally = Tally(most, known, tells_each)
    applied = Rules(rules, tally)
    names = branch_names(store)
    chosen = [branch] if branch else [Branch(store, name) for name in names]
    newest: int | None = None
    error: StorageError | None = None
    notes: list[str] = []
    for one in chosen:
        try:
            listing = list_schemas(one)
        except NotFound:
            if one is chosen[0]:
                raise
            notes.append(f"branch {one.name} has no schema")
            continue
        newest = listing.newest if newest is None else newest
        try:
            _check_branch(listing, tuple(names), applied, on_progress)
        except StorageError as failure:
            # What was found up to here is told all the same.
            error = failure
            break
    return Checked(store.location, newest, Level.LOG, rules, tally, notes, error)


def findings_of(schema: TableSchema, branches: tuple[str, ...] = ()) -> list[Found]:
    """What the rules about single schemas find in one."""
    tally = Tally(None)
    Rules(BOOK.rules, tally).apply(Schema("", schema.id, schema, branches))
    return list(tally.found())


def _check_branch(
    listing: SchemaListing, branches: tuple[str, ...], rules: Rules, on_progress: OnProgress | None
) -> None:
    rules.apply(SchemaFolder(listing))
    before: tuple[int, TableSchema] | None = None
    dropped: dict[int, int] = {}
    for entry, content in read_schemas(listing):
        rules.apply(SchemaFile(entry, content, is_newest=entry.id == listing.newest))
        if isinstance(content, BadSchema):
            continue
        rules.apply(Schema(entry.path, entry.id, content, branches))
        if before is not None:
            before_id, older = before
            rules.apply(Step(entry.path, entry.id, older, content, before_id, dropped))
            gone = older.by_id.keys() - content.by_id.keys()
            dropped.update(dict.fromkeys(gone, entry.id))
        before = entry.id, content
    if rules.want(Unreferenced, MissingSchema):
        _check_references(listing, rules, on_progress)


def _check_references(listing: SchemaListing, rules: Rules, on_progress: OnProgress | None) -> None:
    try:
        found = ReferenceScan(listing.branch, on_progress).run()
    except DeltaCliError as error:
        if isinstance(error, StorageError) and not isinstance(error, FileMissing):
            raise
        root, _, file = (error.location or "").partition(f"{listing.branch.store.location}/")
        rules.apply(Unreferenced(error, None if root else file or None))
        return
    for schema_id in sorted(found.ids - listing.by_id.keys()):
        needed_by = ", ".join(found.reasons(schema_id))
        path = listing.branch.schema_path(schema_id)
        rules.apply(MissingSchema(schema_id, needed_by, path, schema_id))
