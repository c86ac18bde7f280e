"""Measures the commands of a recipient beside the delta-sharing package: whole processes, in turn.

    python benchmarks/recipient.py --peer VENV [--files 100] [--rows 50000] [--listed DIR]
        [--rounds 5]

Both ask one server, on this machine: a table of `files` files is made for it, and `--listed`
is one with many files, of which only the list is read. `VENV` has delta-sharing. Each figure
is the median over rounds in which both run one after the other; the server's work counts in
both.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes import Run, measure, row

START = "import delta_sharing; A = {address!r}; "


@dataclass(frozen=True)
class Case:
    """One job for both; `A` is the table's address and `O` a new file or folder."""

    name: str
    table: str
    ours: tuple[str, ...]
    theirs: str


CASES = (
    Case("version", "rows", ("version", "A"), "delta_sharing.get_table_version(A)"),
    Case(
        "10 rows",
        "rows",
        ("head", "A", "-n", "10", "-o", "json"),
        "print(delta_sharing.load_as_pandas(A, limit=10))",
    ),
    Case(
        "rows of one file, by a condition",
        "rows",
        ("head", "A", "--where", "id < 1000", "-n", "1000", "-o", "jsonl"),
        'f = delta_sharing.load_as_pandas(A, jsonPredicateHints=\'\'\'{"op":"lessThan",'
        '"children":[{"op":"column","name":"id","valueType":"long"},'
        '{"op":"literal","value":"1000","valueType":"long"}]}\'\'\'); '
        "print(f[f.id < 1000].to_json(orient='records', lines=True))",
    ),
    Case(
        "all rows into Parquet",
        "rows",
        ("download", "A", "O", "--as", "parquet"),
        "import os; os.mkdir('O'); delta_sharing.load_as_pandas(A).to_parquet('O/all.parquet')",
    ),
    Case(
        "a list of all files",
        "listed",
        ("files", "A", "-o", "jsonl", "--output-file", "O"),
        "p, _, n = A.rpartition('#'); s, d, t = n.split('.'); "
        "from delta_sharing.protocol import DeltaSharingProfile, Table; "
        "from delta_sharing.rest_client import DataSharingRestClient; "
        "c = DataSharingRestClient(DeltaSharingProfile.read_from_file(p)); "
        "r = c.list_files_in_table(Table(t, s, d)); "
        "open('O', 'w').writelines(f'{one}\\n' for one in r.add_files)",
    ),
)


def make_table(folder: Path, files: int, rows: int) -> None:
    """A table of numbers and texts, without a checkpoint."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from deltacli.storage.local import LocalStore
    from tests.builder import TableBuilder, add, column, commit_info, metadata, protocol

    columns = (column("id"), column("word", "string"), column("amount", "double"))
    folder.mkdir()
    adds = []
    for number in range(files):
        first = number * rows
        data = pa.table(
            {
                "id": pa.array(range(first, first + rows), pa.int64()),
                "word": [f"word number {one % 5000}" for one in range(rows)],
                "amount": [one * 0.25 for one in range(rows)],
            }
        )
        name = f"part-{number:05}.parquet"
        pq.write_table(data, folder / name)
        stats = (
            f'{{"numRecords":{rows},"minValues":{{"id":{first}}},'
            f'"maxValues":{{"id":{first + rows - 1}}},"nullCount":{{"id":0}}}}'
        )
        adds.append(add(name, (folder / name).stat().st_size, stats=stats))
    TableBuilder(LocalStore(str(folder))).commit(
        commit_info(), protocol(), metadata(*columns), *adds
    )


@contextmanager
def serving(tables: Path, profile: Path) -> Iterator[str]:
    """A server of ours; its addresses begin with the text."""
    process = subprocess.Popen(
        [sys.executable, "-m", "deltacli", "share", "serve", str(tables), "--port", "0",
         "--profile-out", str(profile), "-q"],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    while not profile.exists():
        assert process.poll() is None, "the server did not start"
        time.sleep(0.05)
    time.sleep(1)
    try:
        yield f"{profile}#{tables.name}.default."
    finally:
        process.terminate()
        process.wait()


def measure_fresh(command: Sequence[str], out: Path) -> Run:
    """Measure a process that makes a new file or folder."""
    shutil.rmtree(out, ignore_errors=True)
    out.unlink(missing_ok=True)
    return measure(command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", type=Path, required=True)
    parser.add_argument("--files", type=int, default=100)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--listed", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tables, out = Path(folder) / "tables", Path(folder) / "out"
        tables.mkdir()
        # A process begins with the memory of the one that starts it: this one stays small.
        made = multiprocessing.get_context("spawn").Process(
            target=make_table, args=(tables / "rows", options.files, options.rows)
        )
        made.start()
        made.join()
        if options.listed:
            (tables / "listed").symlink_to(options.listed.resolve())
        with serving(tables, Path(folder) / "me.share") as prefix:
            print("| job | deltacli | delta-sharing | time | memory |")
            print("| --- | --- | --- | --- | --- |")
            for case in CASES:
                if (tables / case.table).exists():
                    print(compare(case, prefix + case.table, out, options), flush=True)


def compare(case: Case, address: str, out: Path, options: argparse.Namespace) -> str:
    ours = [sys.executable, "-m", "deltacli", "share",
            *(one.replace("A", address) if one == "A" else str(out) if one == "O" else one
              for one in case.ours)]  # fmt: skip
    code = START.format(address=address) + case.theirs.replace("'O", f"'{out}")
    theirs = [str(options.peer / "bin/python"), "-W", "ignore", "-c", code]
    pairs = [(measure_fresh(ours, out), measure_fresh(theirs, out)) for _ in range(options.rounds)]
    return row(case.name, pairs)


if __name__ == "__main__":
    main()
