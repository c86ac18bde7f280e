"""The server as a process: what it says, how it begins, follows changes, and ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add
from tests.conftest import Result

Cli = Callable[..., Result]
READY = re.compile(r"ready: (https?)://([^:/]+):(\d+)(/\S*?)/;")


class Process:
    """A server started from the command line; what it says is read as it comes."""

    def __init__(self, *arguments: str | Path):
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "deltacli", "share", "serve", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.said = ""
        self.out = b""
        self._readers = [
            threading.Thread(target=self._read_errors), threading.Thread(target=self._read_output)
        ]  # fmt: skip
        for one in self._readers:
            one.start()
        match = self.wait_for(READY)
        self.scheme, self.host, port, self.endpoint = match.groups()
        self.port = int(port)

    def _read_errors(self) -> None:
        for line in self.popen.stderr or ():
            self.said += line.decode()

    def _read_output(self) -> None:
        self.out = ((self.popen.stdout and self.popen.stdout.readline()) or b"") + b"".join(
            self.popen.stdout or ()
        )

    def wait_for(self, pattern: re.Pattern[str] | str) -> re.Match[str]:
        for _ in range(400):
            if match := re.search(pattern, self.said):
                return match
            if self.popen.poll() is not None:
                break
            time.sleep(0.05)
        pytest.fail(f"the server said: {self.said}")

    def get(self, path: str, token: str) -> Any:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        with contextlib.closing(connection):
            connection.request(
                "GET", self.endpoint + path, headers={"Authorization": f"Bearer {token}"}
            )
            answer = connection.getresponse()
            return answer.status, answer.read()

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        code = self.popen.wait(30)
        for one in self._readers:
            one.join(10)
        return code


@contextlib.contextmanager
def process(*arguments: str | Path) -> Iterator[Process]:
    found = Process(*arguments)
    try:
        yield found
    finally:
        if found.popen.poll() is None:
            found.popen.kill()
            found.popen.wait()


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    root = tmp_path / "tables"
    for name in ("orders", "customers"):
        TableBuilder(LocalStore(str(root / name))).start(add("a.parquet", 6))
        (root / name / "a.parquet").write_bytes(b"bytes!")
    return root


def config(tmp_path: Path, tables: Path, more: str = "", share: str = "sales") -> Path:
    path = tmp_path / "shares.yaml"
    path.write_text(
        f"shares: [{{name: {share}, schemas: [{{name: d, tables: "
        f"[{{name: orders, location: {tables}/orders}}]}}]}}]\n"
        f"port: 8080\nhost: 127.0.0.1\n{more}\n"
    )
    return path


def secret(profile: Path) -> str:
    return str(json.loads(profile.read_text())["bearerToken"])


def test_a_folder_is_shared_in_one_command(tables: Path, tmp_path: Path) -> None:
    profile = tmp_path / "me.share"
    with process(tables, "--port", "0", "--profile-out", profile) as server:
        assert profile.stat().st_mode & 0o777 == 0o600
        body = json.loads(profile.read_text())
        assert body["shareCredentialsVersion"] == 1
        assert body["endpoint"] == f"http://127.0.0.1:{server.port}/delta-sharing/"
        assert body["expirationTime"].endswith("Z")
        assert "shared: tables.default.customers, tables.default.orders" in server.said
        assert secret(profile) not in server.said
        status, content = server.get("/shares/tables/all-tables", secret(profile))
        assert status == 200
        assert [one["name"] for one in json.loads(content)["items"]] == ["customers", "orders"]
        # A table that comes later is shared, too.
        TableBuilder(LocalStore(str(tables / "new"))).start()
        path = "/shares/tables/schemas/default/tables/new/version"
        assert server.get(path, secret(profile))[0] == 200
        assert server.stop() == 0
        assert server.out == b""


def test_the_profile_is_shown_where_no_file_is_named(tables: Path) -> None:
    with process(tables, "--port", "0", "--expires", "never") as server:
        assert server.stop(signal.SIGINT) == 0
        body = json.loads(server.out)
        assert set(body) == {"shareCredentialsVersion", "endpoint", "bearerToken"}
        assert body["bearerToken"].startswith("dcs_")


def test_a_recipient_lives_through_add_rotate_grant_and_revoke(
    deltacli: Cli, tables: Path, tmp_path: Path
) -> None:
    path = config(tmp_path, tables)
    profile, second = tmp_path / "acme.share", tmp_path / "acme2.share"

    def recipient(verb: str, *more: str | Path) -> Result:
        return deltacli("share", "recipient", verb, *more, "-c", path)

    assert recipient("add", "acme", "--profile-out", profile).code == 0
    assert profile.stat().st_mode & 0o777 == 0o600
    state = tmp_path / "shares.state"
    assert state.stat().st_mode & 0o777 == 0o700
    assert (state / "recipients.json").stat().st_mode & 0o777 == 0o600
    kept = (state / "recipients.json").read_text()
    assert secret(profile) not in kept
    with process("-c", path, "--port", "0") as server:
        old = secret(profile)
        assert json.loads(server.get("/shares", old)[1]) == {"items": []}
        assert recipient("grant", "ACME", "SALES").code == 0
        assert json.loads(server.get("/shares", old)[1]) == {"items": [{"name": "sales"}]}
        assert recipient("grant", "acme", "sales", "--take-back").code == 0
        assert server.get("/shares/sales", old)[0] == 404
        assert recipient("rotate", "acme", "--grace", "1h", "--profile-out", second).code == 0
        assert {server.get("/shares", one)[0] for one in (old, secret(second))} == {200}
        rotated = recipient("rotate", "acme", "--grace", "0s").json
        assert {server.get("/shares", one)[0] for one in (old, secret(second))} == {401}
        assert server.get("/shares", rotated["bearerToken"])[0] == 200
        (listed,) = deltacli("share", "recipient", "list", "-c", path, "-o", "json").json
        assert listed["status"] == "active"
        assert listed["tokens"] == [f"…{rotated['bearerToken'][-4:]}"]
        assert recipient("revoke", "acme").code == 0
        assert server.get("/shares", rotated["bearerToken"])[0] == 401
        (listed,) = deltacli("share", "recipient", "list", "-c", path, "-o", "json").json
        assert (listed["status"], listed["tokens"], listed["expiresAt"]) == ("revoked", [], None)
        assert server.stop() == 0
    (state / "key").read_text()
    assert (state / "key").stat().st_mode & 0o777 == 0o600


def test_many_processes_add_recipients_at_once(tables: Path, tmp_path: Path) -> None:
    path = config(tmp_path, tables)
    command = [sys.executable, "-m", "deltacli", "share", "recipient", "add", "-c", str(path)]
    running = [
        subprocess.Popen([*command, f"r{number}"], stdout=subprocess.DEVNULL) for number in range(8)
    ]
    assert [one.wait(60) for one in running] == [0] * 8
    kept = json.loads((tmp_path / "shares.state/recipients.json").read_text())
    assert sorted(one["name"] for one in kept["recipients"]) == [f"r{one}" for one in range(8)]


def test_a_configuration_is_read_anew_and_a_bad_one_is_not_used(
    deltacli: Cli, tables: Path, tmp_path: Path
) -> None:
    audit = tmp_path / "audit.jsonl"
    path = config(tmp_path, tables)
    added = deltacli("share", "recipient", "add", "all", "--share", "*", "-c", path)
    token = added.json["bearerToken"]
    with process("-c", path, "--port", "0", "--audit-log", audit) as server:
        assert server.get("/shares/sales", token)[0] == 200
        config(tmp_path, tables, share="other")
        server.popen.send_signal(signal.SIGHUP)
        server.wait_for("read anew")
        assert server.get("/shares/sales", token)[0] == 404
        assert server.get("/shares/other", token)[0] == 200
        path.write_text("shares: [{nam: x}]")
        audit.rename(tmp_path / "old.jsonl")
        server.popen.send_signal(signal.SIGHUP)
        server.wait_for("the new configuration is not used: .*unknown key 'nam'")
        assert server.get("/shares/other", token)[0] == 200
        assert server.stop() == 0
    entries = [json.loads(one) for one in (tmp_path / "old.jsonl").read_text().splitlines()]
    assert [one["status"] for one in entries] == [200, 404, 200]
    assert len(audit.read_text().splitlines()) == 1


def test_the_reference_servers_token_opens_everything(tables: Path, tmp_path: Path) -> None:
    path = config(tmp_path, tables, "authorization: {bearerToken: old token}")
    with process("-c", path, "--port", "0") as server:
        assert server.get("/shares/sales", "old token")[0] == 200
        assert server.get("/shares/sales", "old")[0] == 401


def test_answers_that_have_begun_are_finished(tables: Path, tmp_path: Path) -> None:
    profile = tmp_path / "me.share"
    big = bytes(1 << 20) * 48
    (tables / "orders/a.parquet").write_bytes(big)
    with process(tables, "--port", "0", "--profile-out", profile) as server:
        connection = http.client.HTTPConnection(server.host, server.port)
        headers = {"Authorization": f"Bearer {secret(profile)}"}
        path = f"{server.endpoint}/shares/tables/schemas/default/tables/orders/query"
        connection.request("POST", path, b"{}", headers)
        url = json.loads(connection.getresponse().read().splitlines()[-1])["file"]["url"]
        connection.request("GET", url[url.index("/delta-sharing") :])
        answer = connection.getresponse()
        start = answer.read(1000)
        server.popen.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        # Nobody new is let in.
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((server.host, server.port), timeout=1)
        assert len(start + answer.read()) == len(big)
        connection.close()
        assert server.popen.wait(30) == 0


def failed(*arguments: str | Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "deltacli", "share", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Traceback" not in done.stderr
    assert "hint: " in done.stderr
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_what_cannot_be_served_is_told_before_anything_listens(
    tables: Path, tmp_path: Path
) -> None:
    path = config(tmp_path, tables)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, said = failed("serve", tables, "--port", port)
        assert (code, "cannot listen" in said) == (7, True)
    for code, said, *arguments in (
        (4, "there is no recipient", "serve", "-c", path),
        (2, "name a folder, or a configuration", "serve"),
        (2, "name a folder, or a configuration", "serve", tables, "-c", path),
        (3, "there is no folder", "serve", tmp_path / "nowhere"),
        (3, "there is no file", "serve", "-c", tmp_path / "nowhere.yaml"),
        (2, "go with a folder", "serve", "-c", path, "--expires", "1d"),
        (2, "exists already", "serve", tables, "--profile-out", path),
        (2, "go with a folder", "serve", "-c", path, "--profile-out", "x"),
        (7, "cannot write", "serve", tables, "--profile-out", tmp_path / "no/where"),
        (4, "not a loopback address", "serve", tables, "--host", "0.0.0.0"),
        (4, "at an address that is not known", "serve", tables, "--host", "0.0.0.0", "--insecure",
         "--port", "0"),
        (7, "cannot find the address", "serve", tables, "--host", "no.such.host.invalid",
         "--insecure"),
        (2, "go together", "serve", tables, "--tls-cert", "x"),
        (4, "cannot be loaded with the key", "serve", tables, "--tls-cert", path, "--tls-key", path,
         "--port", "0"),
        (2, "is not a duration", "serve", tables, "--expires", "soon"),
        (2, "not an http or https URL", "serve", tables, "--public-url", "ftp://x"),
        (7, "cannot write", "serve", tables, "--audit-log", tmp_path / "no/where", "--port", "0"),
        (3, "there is no recipient 'x'", "recipient", "revoke", "x", "-c", path),
        (2, "there is no share 'x'", "recipient", "add", "r", "--share", "x", "-c", path),
        (2, "cannot be used", "recipient", "add", "a/b", "-c", path),
        (2, "between a second", "recipient", "add", "r", "--expires", "1ms", "-c", path),
    ):  # fmt: skip
        found, text = failed(*arguments)
        assert (found, said in text) == (code, True), text


def test_a_recipient_is_not_made_twice_nor_a_profile_overwritten(
    deltacli: Cli, tables: Path, tmp_path: Path
) -> None:
    path = config(tmp_path, tables)
    profile = tmp_path / "p"
    profile.write_text("precious")
    taken = deltacli("share", "recipient", "add", "a", "-c", path, "--profile-out", profile)
    assert taken.code == 2
    assert profile.read_text() == "precious"
    assert deltacli("share", "recipient", "add", "a", "-c", path).code == 0
    rotated = ("share", "recipient", "rotate", "a", "-c", path, "--profile-out")
    assert deltacli(*rotated, profile).code == 2
    assert profile.read_text() == "precious"
    assert deltacli(*rotated, tmp_path / "new").code == 0
    assert deltacli(*rotated, tmp_path / "new").code == 0
    again = deltacli("share", "recipient", "add", "A", "-c", path)
    assert (again.code, again.stdout) == (2, "")


def test_a_broken_state_is_told(deltacli: Cli, tables: Path, tmp_path: Path) -> None:
    path = config(tmp_path, tables)
    state = tmp_path / "shares.state"
    assert deltacli("share", "recipient", "add", "a", "-c", path).code == 0
    for name, content, said in (
        ("key", "short", "is not a signing key"),
        ("recipients.json", "{", "is not a file of recipients"),
        ("recipients.json", '{"recipients": [5]}', "is not a file of recipients"),
    ):
        before = (state / name).read_text() if (state / name).exists() else None
        (state / name).write_text(content)
        code, text = failed("serve", "-c", path)
        assert (code, said in text) == (2, True), text
        if before is None:
            (state / name).unlink()
        else:
            (state / name).write_text(before)


def test_tls_with_a_certificate_of_the_run_and_with_files(tables: Path, tmp_path: Path) -> None:
    path = config(tmp_path, tables, "ssl: {selfSigned: true}\nauthorization: {bearerToken: secret}")
    with process("-c", path, "--port", "0") as server:
        assert server.scheme == "https"
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(server.host, server.port, context=context)
        path_ = f"{server.endpoint}/shares/sales/schemas/d/tables/orders/query"
        connection.request("POST", path_, b"{}", {"Authorization": "Bearer secret"})
        url = json.loads(connection.getresponse().read().splitlines()[-1])["file"]["url"]
        assert url.startswith(f"https://127.0.0.1:{server.port}/")
        connection.request("GET", url[url.index("/delta-sharing") :])
        assert connection.getresponse().read() == b"bytes!"
        connection.close()


def test_health_and_metrics_are_on_a_port_of_their_own(tables: Path, tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        admin = probe.getsockname()[1]
    profile = tmp_path / "me.share"
    with process(
        tables, "--port", "0", "--admin-port", str(admin), "--profile-out", profile
    ) as server:
        server.get("/shares", secret(profile))
        server.get("/shares", "wrong")

        def ask(path: str) -> tuple[int, str]:
            connection = http.client.HTTPConnection("127.0.0.1", admin, timeout=10)
            with contextlib.closing(connection):
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()

        assert ask("/-/health")[0] == ask("/-/ready")[0] == 200
        status, text = ask("/-/metrics")
        assert status == 200
        assert 'deltacli_share_requests_total{route="shares",status="200"} 1' in text
        assert 'status="401"} 1' in text
        for line in text.splitlines():
            assert re.fullmatch(r"# TYPE \w+ \w+|\w+(\{[^}]*\})? [0-9.]+", line), line
        assert ask("/nothing")[0] == 404
        # The public port has none of it.
        assert server.get("/../-/metrics", secret(profile))[0] == 404


def test_check_tells_what_each_client_can_do(deltacli: Cli, tables: Path, tmp_path: Path) -> None:
    from tests.builder import features, metadata, vector

    table = TableBuilder(LocalStore(str(tables / "vec")))
    table.commit(features("deletionVectors"), metadata(), add("a", deletionVector=vector()))
    TableBuilder(LocalStore(str(tables / "widened"))).commit(
        features("typeWidening"),
        metadata({"name": "x", "type": "long", "nullable": True, "metadata": {
            "delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}}),
        add("a"),
    )  # fmt: skip
    path = tmp_path / "c.yaml"
    path.write_text(
        "shares: [{name: s, schemas: [{name: d, tables: "
        f"[{{location: '{tables}/*', historyShared: true}}]}}]}}]"
    )
    result = deltacli("share", "check", "-c", path, "-o", "json")
    assert result.code == 0
    rows = {one["table"]: one for one in result.json}
    assert rows["orders"]["clients"] == {
        "parquetOnly": "parquet", "python": "parquet", "spark": "parquet",
    }  # fmt: skip
    assert rows["vec"]["clients"] == {
        "parquetOnly": "cannot read it", "python": "delta", "spark": "delta",
    }  # fmt: skip
    assert rows["widened"]["clients"]["python"] == "cannot read it"
    assert rows["vec"]["needs"] == ["deletionVectors"]
    assert rows["orders"]["links"] == "served"
    assert any("records no change data" in one for one in rows["orders"]["notes"])
    (tables / "orders/_delta_log/00000000000000000000.json").write_text("{")
    broken = deltacli("share", "check", "-c", path, "-o", "json")
    assert broken.code == 1
    assert (
        "00000000000000000000.json"
        in {one["table"]: one for one in broken.json}["orders"]["problem"]
    )


def test_the_server_needs_its_packages(tables: Path) -> None:
    code = (
        "import sys; sys.modules['uvicorn'] = None; from deltacli.cli.app import run; "
        f"sys.exit(run(['share', 'serve', {str(tables)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 7
    assert "pip install 'deltacli[server]'" in done.stderr
