"""Measures `deltacli paimon` beside pypaimon: whole processes, in turn.

    python benchmarks/paimon.py --peer VENV [--schemas 1000] [--manifests 10000]
        [--entries 100] [--rounds 3]

A table is made with so many versions of its schema, and manifests of so many entries each,
which ten snapshots name. pypaimon has no command that deletes schemas; beside ours stands a
bare loop of fastavro over the same lists and manifests, which is what one would write. `VENV`
has pypaimon.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from processes import measure, row

LOOP = """
import fastavro, glob, json, os
root, needed, seen = {table!r}, set(), set()
for path in glob.glob(root + "/snapshot/snapshot-*"):
    snapshot = json.load(open(path))
    needed.add(snapshot["schemaId"])
    for name in (snapshot["baseManifestList"], snapshot["deltaManifestList"]):
        for record in fastavro.reader(open(f"{{root}}/manifest/{{name}}", "rb")):
            seen.add(record["_FILE_NAME"])
for name in seen:
    for record in fastavro.reader(open(f"{{root}}/manifest/{{name}}", "rb")):
        needed.add(record["_FILE"]["_SCHEMA_ID"])
print(len(needed))
"""
CATALOG = """
from pypaimon import CatalogFactory
from pypaimon.schema.schema_change import SchemaChange
catalog = CatalogFactory.create({{"warehouse": {warehouse!r}}})
"""
SHOW = CATALOG + 'print(catalog.get_table("db.t").table_schema.fields)'
ALTER = CATALOG + 'catalog.alter_table("db.t", [SchemaChange.set_option("o", "{number}")], False)'


@dataclass(frozen=True)
class Case:
    name: str
    ours: tuple[str, ...]
    theirs: str


CASES = (
    Case("`expire --dry-run`, all references", ("expire", "T", "--older-than", "0s", "--dry-run",
                                                 "-q", "-o", "json"), LOOP),
    Case("`list`, all references", ("list", "T", "-q", "-o", "json"), LOOP),
    Case("`show`, the newest schema", ("show", "T", "-o", "json"), SHOW),
    Case("`alter`, one option", ("alter", "T", "set option o = N", "--yes", "-q"), ALTER),
)  # fmt: skip


def make_table(root: Path, schemas: int, manifests: int, entries: int) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.paimon.builder import ADD, DELETE, PaimonTable

    table = PaimonTable(root)
    table.add_schemas(schemas)
    chance = random.Random(0)
    # Every third version of the older ones is that of some file.
    used = range(0, schemas * 9 // 10, 3)
    records = [
        table.manifest([(ADD if chance.random() < 0.9 else DELETE, chance.choice(used))
                        for _ in range(entries)])
        for _ in range(manifests)
    ]  # fmt: skip
    for number in range(1, 11):
        upto = manifests * number // 10
        lists = (
            table.manifest_list(records[: upto - 10]),
            table.manifest_list(records[upto - 10 : upto]),
        )
        names = zip(("baseManifestList", "deltaManifestList"), lists, strict=True)
        told = {key: value for name, (file, size) in names
                for key, value in ((name, file), (f"{name}Size", size))}  # fmt: skip
        table.put(f"snapshot/snapshot-{number}", {"version": 3, "id": number,
                                                  "schemaId": schemas - 1, **told})  # fmt: skip
    table.put("snapshot/LATEST", "10")


def compare(case: Case, warehouse: Path, options: argparse.Namespace) -> str:
    table = warehouse / "db.db/t"
    pairs = []
    for number in range(options.rounds):
        words = [
            str(table) if one == "T" else one.replace("= N", f"= ours{number}") for one in case.ours
        ]
        code = case.theirs.format(table=str(table), warehouse=str(warehouse), number=number)
        pairs.append(
            (
                measure([sys.executable, "-m", "deltacli", "paimon", *words]),
                measure([str(options.peer / "bin/python"), "-W", "ignore", "-c", code]),
            )
        )
    return row(case.name, pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--schemas", type=int, default=1000)
    parser.add_argument("--manifests", type=int, default=10_000)
    parser.add_argument("--entries", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        # A process begins with the memory of the one that starts it: this one stays small.
        sizes = (options.schemas, options.manifests, options.entries)
        made = multiprocessing.get_context("spawn").Process(
            target=make_table, args=(Path(folder) / "db.db/t", *sizes)
        )
        made.start()
        made.join()
        print("| job | deltacli | pypaimon | time | memory |")
        print("| --- | --- | --- | --- | --- |")
        for case in CASES:
            print(compare(case, Path(folder), options), flush=True)


if __name__ == "__main__":
    main()
