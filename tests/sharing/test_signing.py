"""URLs that object stores sign themselves, made with keys that need no network."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from deltacli.errors import Refused
from deltacli.storage import open_store
from deltacli.storage.local import LocalStore
from deltacli.storage.memory import MemoryStore


def service_account(folder: Path) -> Path:
    """The key file of a service account that nobody has."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    body = {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "k",
        "private_key": pem.decode(),
        "client_email": "reader@p.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": "http://127.0.0.1:1/token",
    }
    path = folder / "account.json"
    path.write_text(json.dumps(body))
    return path


def test_google_signs_by_its_fourth_version(tmp_path: Path) -> None:
    pytest.importorskip("gcsfs", reason="gcsfs is not installed")
    options = {"token": str(service_account(tmp_path)), "project": "p"}
    url = urlsplit(open_store("gs://bucket/tables/t", options).sign("p=a b/x.parquet", 60))
    assert (url.scheme, url.path) == ("https", "/bucket/tables/t/p%3Da%20b/x.parquet")
    fields = parse_qs(url.query)
    assert fields["X-Goog-Expires"] == ["60"]
    assert {"X-Goog-Credential", "X-Goog-Signature"} <= set(fields)


def test_azure_signs_for_reading_only() -> None:
    pytest.importorskip("adlfs", reason="adlfs is not installed")
    table = "abfss://box@account.dfs.core.windows.net/t"
    url = urlsplit(open_store(table, {"account_key": "a2V5a2V5"}).sign("p=a b/x.parquet", 60))
    assert url.path == "/box/t/p%3Da%20b/x.parquet"
    assert parse_qs(url.query)["sp"] == ["r"]
    with pytest.raises(Refused):
        open_store(table, {"sas_token": "sv=x"}).sign("x.parquet", 60)


def test_other_storage_signs_nothing(tmp_path: Path) -> None:
    for store in (LocalStore(str(tmp_path)), MemoryStore(), open_store("memory://x")):
        with pytest.raises(Refused):
            store.sign("x.parquet", 60)
