"""Rules about schema files themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deltacli.checking.model import ERROR, INFO, WARNING, Finding, rule
from deltacli.delta import json_text
from deltacli.paimon.schema_file import NEWEST_VERSION, BadSchema
from deltacli.paimon.subjects import Schema, SchemaFile, SchemaFolder


@rule("PMF001", ERROR, "Every schema file can be read", of=SchemaFile)
def schema_file_can_be_read(one: SchemaFile) -> Iterator[Finding]:
    """A schema file is JSON with all members and types of the specification.

    Why: the newest one is the table's definition, and older ones are needed to read older files.
    Fix: restore the file from a backup; never delete the newest one, for an id would come twice.
    """
    if isinstance(one.content, BadSchema):
        newest = " (the newest)" if one.is_newest else ""
        yield Finding(f"schema-{one.entry.id}{newest} cannot be read: {one.content}")


@rule("PMF002", ERROR, "A schema file is called by its id", of=SchemaFile)
def file_is_called_by_its_id(one: SchemaFile) -> Iterator[Finding]:
    """The number in a file's name is the id in the file.

    Why: readers find a version by the name, writers number the next one by the content.
    Fix: restore the file that belongs there.
    """
    if not isinstance(one.content, BadSchema) and one.content.id != one.entry.id:
        yield Finding(f"file name and id differ: schema-{one.entry.id} has the id {one.content.id}")


@rule("PMF003", WARNING, "The format of a schema file is known", of=Schema)
def format_is_known(one: Schema) -> Iterator[Finding]:
    """The `version` of the file's format is 3 or older.

    Why: a newer one may say things that this program passes over; it is read, never written.
    Fix: use a newer deltacli.
    """
    if one.schema.version > NEWEST_VERSION:
        yield Finding(f"version {one.schema.version} is newer than {NEWEST_VERSION}")


@rule("PMF004", WARNING, "Values of options are text", of=Schema)
def option_values_are_text(one: Schema) -> Iterator[Finding]:
    """Each value in `options` is a JSON string.

    Why: readers make text of other values, each in its own way.
    Fix: set the option anew with `deltacli paimon alter TABLE 'set option KEY = VALUE'`.
    """
    for key, value in one.schema.tree.get("options", {}).items():
        if not isinstance(value, str):
            yield Finding(
                f"option value is not text: {key} = {json_text.dump(value).decode()[:80]}"
            )


@rule("PMF005", INFO, "Only versions lie among the schemas", of=SchemaFolder)
def only_versions_lie_there(one: SchemaFolder) -> Iterator[Finding]:
    """The folder `schema` has files `schema-N` and no others.

    Why: others are passed over here, and Paimon may take some of them for versions.
    Fix: move them away if nobody needs them; `.schema-N.….tmp` is left by a writer that died.
    """
    folder = one.listing.branch.path("schema")
    for name in one.listing.ignored:
        yield Finding(f"{name} is no version", file=f"{folder}/{name}")


@rule("PMF006", WARNING, "Every reader takes a type for the same", of=Schema)
def types_are_written_plainly(one: Schema) -> Iterator[Finding]:
    """The text of an object type says what Paimon's Java takes it for.

    Why: pypaimon up to 2.0 wrote `MAP<STRING NOT NULL, INT>` there, which Java takes for NOT NULL.
    Fix: the next change of the schema writes it anew.
    """
    for place, text, nullable in _object_types(one.schema.tree.get("fields", []), ""):
        if nullable is not None and nullable == ("NOT NULL" in text):
            kind = "nullable" if nullable else "NOT NULL"
            yield Finding(f"{place}: the text {text!r} is another type for Java than {kind}")


@rule("PMF007", INFO, "A schema without a comment says nothing of one", of=Schema)
def no_comment_is_no_member(one: Schema) -> Iterator[Finding]:
    """A file whose table has no comment leaves the member out.

    Why: Java reads `"comment": null`, which pypaimon writes, as the text `null`.
    Fix: nothing has to be done; the next change by deltacli leaves it out.
    """
    if "comment" in one.schema.tree and one.schema.tree["comment"] is None:
        yield Finding('"comment": null is the comment `null` for Java')


def _object_types(fields: Any, above: str) -> Iterator[tuple[str, str, bool | None]]:
    """Each object type in a tree: its place, its text, and its member `nullable`."""
    for one in fields if isinstance(fields, list) else []:
        place = f"{above}.{one['name']}" if above else one["name"]
        waiting = [one["type"]]
        while waiting:
            kind = waiting.pop()
            if not isinstance(kind, dict):
                continue
            nullable = kind.get("nullable")
            yield place, kind["type"], nullable if isinstance(nullable, bool) else None
            waiting += [kind.get(inner) for inner in ("element", "key", "value")]
            yield from _object_types(kind.get("fields"), place)
