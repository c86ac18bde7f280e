"""The configuration: the reference server's YAML, ours, and what is wrong with others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltacli.errors import NotFound, UsageError
from deltacli.sharing.server.catalog import build_catalog
from deltacli.sharing.server.config import (
    Admin,
    Limits,
    Tls,
    folder_config,
    load_config,
    parse_config,
)
from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder

REFERENCE = """
# The format version of this config file
version: 1
# Config shares/schemas/tables to share
shares:
- name: "share1"
  schemas:
  - name: "schema1"
    tables:
    - name: "table1"
      # S3. See https://github.com/delta-io/delta-sharing#s3 for how to config the credentials
      location: "s3a://bucket/the/table/path"
      id: "00000000-0000-0000-0000-000000000000"
    - name: "table2"
      location: "wasbs://container@account/the/table/path"
      id: ""
- name: "share2"
  schemas:
  - name: "schema2"
    tables:
    - name: "table3"
      location: "gs://bucket/the/table/path"
      historyShared: true
      startVersion: 1
authorization:
  bearerToken: "secret token"
ssl:
  selfSigned: false
  certificateFile: "cert.pem"
  certificateKeyFile: "key.pem"
  certificatePasswordFile: "password"
# Set the host name that you want to use
host: "localhost"
# Set the port that the server will listen on
port: 8080
# Set the url prefix for the REST APIs
endpoint: "/delta-sharing"
preSignedUrlTimeoutSeconds: 3600
temporaryCredentialValiditySeconds: 3600
deltaTableCacheSize: 10
stalenessAcceptable: false
evaluatePredicateHints: false
evaluateJsonPredicateHints: true
evaluateJsonPredicateHintsV2: true
requestTimeoutSeconds: 30
queryTablePageSizeLimit: 10000
queryTablePageTokenTtlMs: 259200000
refreshTokenTtlMs: 3600000
"""


def test_the_reference_servers_file_is_understood(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("open sesame\n")
    path = tmp_path / "old.yaml"
    path.write_text(REFERENCE)
    config = load_config(str(path))
    (first, second) = config.shares
    assert [one.name for one in first.schemas[0].tables] == ["table1", "table2"]
    table = second.schemas[0].tables[0]
    assert (table.location, table.history_shared, table.start_version) == (
        "gs://bucket/the/table/path", True, 1,
    )  # fmt: skip
    assert first.schemas[0].tables[1].id is None
    assert config.bearer_token == "secret token"
    assert config.tls == Tls(
        False, str(tmp_path / "cert.pem"), str(tmp_path / "key.pem"), "open sesame"
    )
    assert (config.sql_hints, config.json_hints, config.cached_tables) == (False, True, 10)
    assert config.state == str(tmp_path / "old.state")
    # What it cannot have an effect on is said, not passed over.
    assert "temporaryCredentialValiditySeconds" in config.warnings[0]


def test_our_own_keys(tmp_path: Path) -> None:
    text = """
shares:
- name: s
  schemas:
  - name: d
    tables:
    - {name: a, location: tables/a, changeData: false, partitionFilter: "p = 1",
       links: proxy, roots: [other, "s3://b/x"], storageOptions: {anon: true, port: 5}}
    - {location: "tables/*", historyShared: true}
storageOptions: {region_name: eu}
publicUrl: https://sharing.example.com/
state: /var/lib/sharing
limits: {requestsPerMinute: 60, concurrentRequests: 4, concurrentDownloads: 8}
admin: {port: 9090}
auditLog: audit.jsonl
"""
    config = parse_config(text, str(tmp_path / "c.yaml"))
    a, every = config.shares[0].schemas[0].tables
    assert a.location == str(tmp_path / "tables/a")
    assert a.roots == (str(tmp_path / "other"), "s3://b/x")
    assert a.storage_options == {"region_name": "eu", "anon": "true", "port": "5"}
    assert (every.name, every.location) == (None, str(tmp_path / "tables/*"))
    assert config.public_url == "https://sharing.example.com"
    assert config.limits == Limits(60, 4, 8)
    assert config.admin == Admin(9090, "127.0.0.1")
    assert config.audit_log == str(tmp_path / "audit.jsonl")
    assert config.state == "/var/lib/sharing"


TABLE = "shares: [{name: s, schemas: [{name: d, tables: [%s]}]}]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("hots: x", "unknown key 'hots'|did you mean host?"),
        ("shares: [{name: s, shemas: []}]", "shares[0] has an unknown key 'shemas'|schemas"),
        (TABLE % "{name: t, location: x, historyshared: true}", "historyshared|historyShared"),
        ("- x", "is not a mapping"),
        ("5", "is not a mapping"),
        ("", "is not a mapping"),
        ("a: b: c", "line 1 is not YAML"),
        ("a:\n\t- x", "line 2 is not YAML"),
        ("shares: []\nshares: []", "line 2 is not YAML: the key 'shares' stands twice"),
        (TABLE % "{name: t, location: x, name: y}", "the key 'name' stands twice"),
        ("host: !!int x", "has a value that is none"),
        ("port: 0x_", "has a value that is none"),
        ("endpoint: //a//b/", "endpoint is not a path of plain names"),
        ("endpoint: /%2e%2e", "endpoint is not a path of plain names"),
        ("endpoint: /a b?c#d", "endpoint is not a path of plain names"),
        ("publicUrl: 'https://x/\"a'", "publicUrl is not an http or https URL"),
        ("publicUrl: https://x/#y", "publicUrl is not an http or https URL"),
        ("auditLog: true", "auditLog is not a text"),
        ("port: x", "port is not a whole number"),
        ("port: 70000", "port is not a whole number"),
        ("port: true", "port is not a whole number"),
        ("version: 2", "version is not 1"),
        ("stalenessAcceptable: maybe", "is neither true nor false"),
        ("shares: x", "shares is not a list"),
        ("shares: [x]", "shares[0] is not a mapping"),
        ("shares: [{schemas: []}]", "it is empty"),
        ("shares: [{name: a/b}]", "it has '/' in it"),
        ("shares: [{name: a b}]", "it has ' ' in it"),
        ("shares: [{name: s, schemas: [{name: a.b}]}]", "it has a dot in it"),
        (f"shares: [{{name: {'x' * 256}}}]", "longer than 255"),
        ("shares: [{name: a}, {name: A}]", "two shares of one name: 'a' and 'A'"),
        ("shares: [{name: s, schemas: [{name: d}, {name: D}]}]", "two schemas of one name"),
        (TABLE % "{name: t, location: x}, {name: T, location: y}", "two tables of one name"),
        (TABLE % "{name: t}", "has no location"),
        (TABLE % "{location: x}", "has no name"),
        (TABLE % "{name: t, location: 'x/*'}", "has a name and a pattern"),
        (TABLE % "{name: t, location: x, links: maybe}", "is none of auto, presign, proxy"),
        (TABLE % "{name: t, location: x, startVersion: -1}", "startVersion is not a whole number"),
        ("publicUrl: sharing.example.com", "publicUrl is not an http or https URL"),
        ("publicUrl: 'http://[x'", "publicUrl is not an http or https URL"),
        ("ssl: {certificateFile: x}", "ssl has no certificate"),
        ("ssl: {certificateFile: x, certificateKeyFile: y, certificatePasswordFile: /no}",
         "password file that cannot be read"),
        ("admin: {host: x}", "admin has no port"),
        ("limits: {requests: 5}", "unknown key 'requests'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_config(text, "c.yaml")
    for one in said.split("|"):
        assert one in f"{caught.value.message} {caught.value.hint}"


def test_empty_parts_are_empty() -> None:
    nulls = "shares: [{name: s, schemas: [{name: d, tables: }]}]\nssl:\nauthorization:"
    for text in (
        "shares:",
        "shares: []",
        "shares: [{name: s}]",
        "shares: [{name: s, schemas: }]",
        nulls,
    ):
        assert list(build_catalog(parse_config(text, "c.yaml")).tables()) == []


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(NotFound):
        load_config("/nowhere/c.yaml")


def make_tables(root: Path, *names: str) -> None:
    for name in names:
        TableBuilder(LocalStore(str(root / name))).start()


def names(config: Any) -> tuple[list[str], tuple[str, ...]]:
    catalog = build_catalog(config)
    return [str(name) for name, _ in catalog.tables()], catalog.warnings


def test_a_pattern_shares_every_table_that_matches(tmp_path: Path) -> None:
    make_tables(tmp_path, "b", "a", "with.dot", "B", "x/deep")
    (tmp_path / "folder").mkdir()
    text = TABLE % f"{{location: '{tmp_path}/*'}}, {{name: b, location: {tmp_path}/x/deep}}"
    found, warnings = names(parse_config(text, "c.yaml"))
    assert found == ["s.d.a", "s.d.b"]
    assert any("with.dot is not shared" in one for one in warnings)
    assert sum("is another table" in one for one in warnings) == 2


def test_a_pattern_that_matches_nothing_is_a_warning(tmp_path: Path) -> None:
    found, warnings = names(parse_config(TABLE % f"{{location: '{tmp_path}/*'}}", "c.yaml"))
    assert (found, len(warnings)) == ([], 1)


def test_a_folder_is_a_configuration(tmp_path: Path) -> None:
    make_tables(tmp_path / "my tables", "orders", "customers")
    config = folder_config(str(tmp_path / "my tables"), {})
    assert names(config)[0] == ["my_tables.default.customers", "my_tables.default.orders"]
    (table,) = config.shares[0].schemas[0].tables
    assert table.history_shared
    assert table.change_data
    one = folder_config(str(tmp_path / "my tables/orders/"), {})
    assert names(one)[0] == ["orders.default.orders"]
    with pytest.raises(NotFound):
        folder_config(str(tmp_path / "nowhere"), {})
