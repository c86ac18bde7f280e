"""Loads a sharing server with many clients while its table changes.

    python benchmarks/sharing.py --table DIR [--clients 64] [--seconds 60] [--commits]

The table is copied first. Some clients read whole answers, others ask for versions, metadata,
limited and filtered answers, and old versions. With `--commits`, commits, checkpoints, vacuum
and reloads of the configuration go on meanwhile. Clients are processes of their own; what
they do not understand, or an answer that is not whole, is an error.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

TOKEN = "load-of-many-clients"
KINDS = (
    ("whole", 8, "query", {}),
    ("limited", 4, "query", {"limitHint": 1000}),
    ("filtered", 2, "query", {"predicateHints": ["date = '2024-02-03'"]}),
    ("older", 1, "query", {"version": -1}),
    ("paged", 2, "query", {"maxFiles": 1000}),
    ("metadata", 3, "metadata", None),
    ("version", 4, "version", None),
)


def asked(body: dict[str, object], first_version: int) -> dict[str, object]:
    """The body with a version that the table had before the changes."""
    return {**body, "version": first_version} if "version" in body else body


def client(
    endpoint: str, token: str, end: float, first_version: int, seed: int, result: Path
) -> None:
    """Ask until the end, one request after the other on one connection."""
    rng = random.Random(seed)
    url = urlsplit(endpoint)
    kinds = [kind for kind in KINDS for _ in range(kind[1])]
    found: list[tuple[str, float, float, int]] = []
    errors: Counter[str] = Counter()
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=120)
    while time.time() < end:
        name, _, path, body = rng.choice(kinds)
        method = "GET" if body is None else "POST"
        began = time.monotonic()
        try:
            connection.request(
                method,
                f"{url.path}shares/load/schemas/s/tables/t/{path}",
                None if body is None else json.dumps(asked(body, first_version)).encode(),
                {
                    "Authorization": f"Bearer {token}",
                    "delta-sharing-capabilities": "includeendstreamaction=true",
                },
            )
            answer = connection.getresponse()
            first = answer.read1(65_536)
            to_first = time.monotonic() - began
            size, last = len(first), first[-4096:]
            while chunk := answer.read(1 << 20):
                size += len(chunk)
                last = (last + chunk)[-4096:]
            if answer.status != 200:
                errors[f"{name}: {answer.status} {first[:200]!r}"] += 1
            elif path != "version" and b'"endStreamAction"' not in last:
                errors[f"{name}: not whole"] += 1
            found.append((name, to_first, time.monotonic() - began, size))
        except (OSError, http.client.HTTPException) as error:
            errors[f"{name}: {error!r}"] += 1
            connection.close()
    result.write_text(json.dumps({"found": found, "errors": errors}))


def clients(
    endpoint: str,
    token: str,
    end: float,
    first_version: int,
    numbers: Sequence[int],
    folder: Path,
) -> None:
    """Several clients in one process."""
    threads = [
        threading.Thread(
            target=client,
            args=(endpoint, token, end, first_version, one, folder / f"{one}.json"),
        )
        for one in numbers
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def newest(table: Path) -> int:
    return max(int(one.name[:20]) for one in (table / "_delta_log").glob("*[0-9].json"))


def change(table: Path, server: subprocess.Popen[bytes], end: float) -> None:
    """Commits, checkpoints, vacuum and reloads, until the end."""
    log = table / "_delta_log"
    version, number = newest(table), 0
    while time.time() < end - 2:
        version, number = version + 1, number + 1
        name = f"date=2024-02-03/new-{number}.parquet"
        add = {
            "path": name,
            "partitionValues": {"date": "2024-02-03"},
            "size": 10,
            "modificationTime": 0,
            "dataChange": True,
            "stats": '{"numRecords":1}',
        }
        (table / name).parent.mkdir(exist_ok=True)
        (table / name).write_bytes(b"0123456789")
        lines = [{"commitInfo": {"timestamp": int(time.time() * 1000)}}, {"add": add}]
        partial = log / f".{version}.tmp"
        partial.write_text("".join(json.dumps(one) + "\n" for one in lines))
        partial.rename(log / f"{version:020}.json")
        if number % 8 == 4:
            run("checkpoint", str(table), "--yes", "-q")
        if number % 8 == 0:
            run("vacuum", str(table), "--yes", "-q", "--allow-large-delete")
            server.send_signal(signal.SIGHUP)
        time.sleep(1.5)


def run(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "deltacli", *arguments],
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def peak_mb(process: int) -> int:
    text = Path(f"/proc/{process}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+)", text)
    return int(match[1]) // 1024 if match else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--commits", action="store_true")
    parser.add_argument("--python", default=sys.executable, help="runs the server")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(options, Path(folder))


def measure(options: argparse.Namespace, folder: Path) -> None:
    table = folder / "t"
    shutil.copytree(options.table, table)
    config = folder / "shares.yaml"
    config.write_text(
        f"port: 0\nhost: 127.0.0.1\nauthorization: {{bearerToken: {TOKEN}}}\n"
        f"shares: [{{name: load, schemas: [{{name: s, tables: "
        f"[{{name: t, location: {table}, historyShared: true}}]}}]}}]\n"
    )
    server = subprocess.Popen(
        [options.python, "-m", "deltacli", "share", "serve", "-c", str(config)],
        stderr=subprocess.PIPE,
    )
    said: list[str] = []
    for line in server.stderr or ():
        said.append(line.decode())
        if match := re.search(r"ready: (\S+);", said[-1]):
            endpoint = match[1]
            break
    reader = threading.Thread(target=lambda: said.extend(map(bytes.decode, server.stderr or ())))
    reader.start()
    end = time.time() + options.seconds
    shares = [range(options.clients)[one::4] for one in range(4)]
    jobs = [
        subprocess.Popen(
            [sys.executable, __file__, "--as-clients", endpoint, str(end), str(newest(table)),
             str(folder), *map(str, numbers)],
        )
        for numbers in shares
    ]  # fmt: skip
    if options.commits:
        change(table, server, end)
    for job in jobs:
        job.wait()
    memory = peak_mb(server.pid)
    server.terminate()
    code = server.wait(60)
    reader.join()
    report(folder, options, memory, code)
    for line in said:
        if line.startswith("error"):
            print(line, end="")


def report(folder: Path, options: argparse.Namespace, memory: int, code: int) -> None:
    by_kind: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    errors: Counter[str] = Counter()
    for path in folder.glob("*.json"):
        body = json.loads(path.read_text())
        errors.update(body["errors"])
        for name, first, whole, size in body["found"]:
            by_kind[name].append((first, whole, size))
    print(f"{options.clients} clients, {options.seconds} s; exit {code}, peak {memory} MB")
    for name, found in sorted(by_kind.items()):
        first = [one[0] for one in found]
        whole = [one[1] for one in found]
        size = sum(one[2] for one in found)
        print(
            f"{name:9} {len(found):6} answers, first line p50 {statistics.median(first):.2f} s, "
            f"p95 {sorted(first)[int(len(first) * 0.95)]:.2f} s, whole p50 "
            f"{statistics.median(whole):.2f} s, {size / options.seconds / 1e6:.1f} MB/s"
        )
    print("errors:", dict(errors) or "none")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-clients"]:
        _, _, endpoint_, end_, version_, folder_, *numbers_ = sys.argv
        mine = [int(one) for one in numbers_]
        clients(endpoint_, TOKEN, float(end_), int(version_), mine, Path(folder_))
    else:
        main()
    os._exit(0)
