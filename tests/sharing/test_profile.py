"""Profiles: every kind that works, every fault with its name; credentials that renew."""

from __future__ import annotations

import base64
import contextlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltacli.errors import StorageError
from deltacli.sharing.client.address import parse_table, split_address
from deltacli.sharing.client.http import Http
from deltacli.sharing.client.server import SharingServer
from deltacli.sharing.profile import BadProfile, Basic, Bearer, OAuthClient, parse_profile
from tests.conftest import Result
from tests.sharing.client import SOON
from tests.sharing.scripted import Asked, Say, scripted

Deltacli = Callable[..., Result]
V1 = {"shareCredentialsVersion": 1, "endpoint": "https://x.example/ds/", "bearerToken": "s3cret"}
V2 = {"shareCredentialsVersion": 2, "endpoint": "https://x.example/ds"}
OAUTH = {
    **V2,
    "type": "oauth_client_credentials",
    "tokenEndpoint": "https://login.example/token",
    "clientId": "me",
    "clientSecret": "s3cret",
}


def parse(body: Any, **more: bool) -> Any:
    return parse_profile(json.dumps(body).encode(), **more)


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


def test_profiles_of_every_kind_are_read() -> None:
    assert parse(V1).endpoint == "https://x.example/ds"
    assert parse(V1).credentials == Bearer("s3cret")
    assert parse({**V1, "type": "bearer_token", "more": [1]}).credentials == Bearer("s3cret")
    assert parse({**V2, "type": "bearer_token", "bearerToken": "t"}).credentials == Bearer("t")
    basic = {**V2, "type": "basic", "username": "me", "password": "s3cret"}
    assert parse(basic).credentials == Basic("me", "s3cret")
    assert parse(OAUTH).credentials == OAuthClient("https://login.example/token", "me", "s3cret")
    assert parse({**OAUTH, "scope": "a b"}).credentials.scope == "a b"
    local = {**V1, "endpoint": "http://localhost:8080/ds"}
    assert parse(local).endpoint == "http://localhost:8080/ds"
    assert parse({**V1, "endpoint": "http://far.example"}, allow_http=True)
    assert parse_profile(b"\xef\xbb\xbf" + json.dumps(V1).encode())
    for text in ("2021-11-12T00:12:29.0Z", "2021-11-12T00:12:29+00:00", "2021-11-12T00:12:29"):
        assert parse({**V1, "expirationTime": text}).expires_ms == 1_636_675_949_000


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "not a JSON object"),
        ({}, "shareCredentialsVersion is missing"),
        ({**V1, "shareCredentialsVersion": "1"}, "shareCredentialsVersion is missing, or no"),
        ({**V1, "shareCredentialsVersion": 3}, "newer deltacli"),
        (without(V1, "endpoint"), "endpoint is missing"),
        (without(V1, "bearerToken"), "bearerToken is missing"),
        ({**V1, "bearerToken": 5}, "bearerToken is no text"),
        ({**V1, "bearerToken": "a b"}, "characters that no token has"),
        ({**V1, "bearerToken": "a\r\nX: y"}, "characters that no token has"),
        ({**V1, "endpoint": "ftp://x/"}, "no URL"),
        ({**V1, "endpoint": "https://"}, "no URL"),
        ({**V1, "endpoint": "https://x:port/"}, "no URL"),
        ({**V1, "endpoint": "https://me:pw@x/"}, "more than a host"),
        ({**V1, "endpoint": "https://x/?a=b"}, "more than a host"),
        ({**V1, "endpoint": "http://far.example/"}, "without TLS"),
        ({**V1, "expirationTime": "soon"}, "expirationTime is no time"),
        ({**V1, "expirationTime": 5}, "expirationTime is no time"),
        (V2, "type is missing"),
        ({**V2, "type": "magic"}, "'magic'"),
        ({**V2, "type": "oauth_jwt_bearer_private_key_jwt"}, "known here are"),
        ({**V2, "type": "basic", "username": "a"}, "password is missing"),
        ({**V2, "type": "basic", "username": "a:b", "password": "c"}, "colon"),
        (without(OAUTH, "clientSecret"), "clientSecret is missing"),
        ({**OAUTH, "tokenEndpoint": "http://far.example/"}, "without TLS"),
    ],
)
def test_every_fault_of_a_profile_is_named(body: Any, said: str) -> None:
    with pytest.raises(BadProfile) as caught:
        parse(body)
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert "s3cret" not in caught.value.message


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from([*OAUTH, "bearerToken", "username", "password", "expirationTime"]),
        inner, max_size=8),
    max_leaves=8,
).map(lambda body: json.dumps(body).encode()))  # fmt: skip
def test_anything_is_a_profile_or_a_named_fault(content: bytes) -> None:
    with contextlib.suppress(BadProfile):
        parse_profile(content)


def test_secrets_are_in_no_text_of_a_profile() -> None:
    for body in (V1, OAUTH, {**V2, "type": "basic", "username": "me", "password": "s3cret"}):
        profile = parse(body)
        assert "s3cret" not in repr(profile)
        server = SharingServer(profile, Http())
        assert "s3cret" not in repr(server)
        again = pickle.loads(pickle.dumps(server))
        assert again.profile == profile


@pytest.mark.parametrize(
    ("text", "profile", "name"),
    [
        ("me.share#a.b.c", "me.share", "a.b.c"),
        ("/a#b/me.share#s.d.t", "/a#b/me.share", "s.d.t"),
        ("a.b.c", None, "a.b.c"),
        ("#a.b.c", None, "a.b.c"),
        ("me.share#", "me.share", ""),
    ],
)
def test_an_address_ends_after_the_last_hash(text: str, profile: str | None, name: str) -> None:
    assert split_address(text) == (profile, name)


def test_a_share_may_have_dots() -> None:
    found = parse_table("my.own.share.schema.table")
    assert found.names == ("my.own.share", "schema", "table")
    assert parse_table("a/b.c d.é%").path == "/shares/a%2Fb/schemas/c%20d/tables/%C3%A9%25"


# -- as commands read them ---------------------------------------------------------------


@pytest.fixture
def shares(deltacli: Deltacli, tmp_path: Path) -> Callable[..., Result]:
    """`share shares` with a profile for a server, and what more is said."""

    def invoke(body: Any, *more: str, mode: int = 0o600, url: str = "") -> Result:
        path = tmp_path / "me.share"
        content = body if isinstance(body, str) else json.dumps(body).replace(
            "https://x.example/ds", url or "https://x.example/ds")  # fmt: skip
        path.write_text(content)
        path.chmod(mode)
        return deltacli("share", "shares", "--profile", path, "--timeout", "1s", *more)

    return invoke


EMPTY = Say(200, b'{"items":[]}')


def test_a_profile_is_warned_of_before_it_ends(shares: Callable[..., Result]) -> None:
    from datetime import UTC, datetime, timedelta

    now = datetime.now(UTC)
    with scripted(lambda _: EMPTY) as server:
        for days, code, said in ((-1, 4, "expired at"), (3, 0, "expires in 2d"), (9, 0, "")):
            ends = (now + timedelta(days=days)).isoformat()
            result = shares({**V1, "expirationTime": ends}, url=server.url)
            assert result.code == code
            assert said in result.stderr
            assert bool(result.stderr) is (days < 7)
    assert len(server.asked) == 2


def test_a_profile_that_others_can_read_is_warned_of(shares: Callable[..., Result]) -> None:
    with scripted(lambda _: EMPTY) as server:
        assert "chmod 600" in shares(V1, mode=0o644, url=server.url).stderr
        assert shares(V1, "-q", mode=0o644, url=server.url).stderr == ""
        assert shares(V1, mode=0o600, url=server.url).stderr == ""


def test_profiles_that_cannot_be_used(shares: Callable[..., Result], deltacli: Deltacli) -> None:
    result = shares("{")
    assert result.code == 4
    assert "me.share: it is not JSON" in result.stderr
    assert deltacli("share", "shares").code == 2
    assert deltacli("share", "shares", "--profile", "/nope").code == 3
    assert deltacli("share", "shares", "--profile", "/").code == 7
    assert deltacli("share", "head", "a.b", "--profile", "/nope").code == 2


def test_a_profile_comes_by_variable_address_url_or_pipe(
    deltacli: Deltacli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import io
    import sys

    import fsspec

    with scripted(lambda _: EMPTY) as server:
        content = json.dumps({**V1, "endpoint": server.url}).encode()
        path = tmp_path / "me#1.share"
        path.write_bytes(content)
        path.chmod(0o600)
        fsspec.filesystem("memory").pipe("/profiles/me.share", content)
        assert deltacli("share", "schemas", f"{path}#s").code == 0
        assert deltacli("share", "shares", "--profile", "memory://profiles/me.share").code == 0
        monkeypatch.setenv("DELTACLI_PROFILE", str(path))
        assert deltacli("share", "shares").code == 0
        monkeypatch.delenv("DELTACLI_PROFILE")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert deltacli("share", "shares", "--profile", "-").code == 0
        assert len(server.asked) == 4
    assert deltacli("share", "shares", "--profile", "memory://profiles/no").code == 3


# -- credentials -------------------------------------------------------------------------


def server_of(body: dict[str, Any], url: str) -> SharingServer:
    own = {key: value.replace("https://x.example/ds", url).replace("https://login.example", url)
           if isinstance(value, str) else value for key, value in body.items()}  # fmt: skip
    return SharingServer(parse(own), Http(SOON))


def test_basic_credentials_are_sent() -> None:
    body = {**V2, "type": "basic", "username": "mé", "password": "pä:ss"}
    with scripted(lambda _: EMPTY) as server:
        list(server_of(body, server.url).shares())
        kind, _, text = server.asked[0].headers["authorization"].partition(" ")
    assert kind == "Basic"
    assert base64.b64decode(text).decode() == "mé:pä:ss"


class TokenServer:
    """Gives tokens, and takes only the newest one."""

    def __init__(self, expires_in: Any = 3600):
        self.given = 0
        self.revoked = False
        self.expires_in = expires_in
        self.fields: dict[str, Any] = {}

    def __call__(self, asked: Asked) -> Say:
        if asked.path == "/token":
            self.given += 1
            self.revoked = False
            self.fields = parse_qs(asked.body.decode())
            assert asked.headers["authorization"].startswith("Basic ")
            body = {"access_token": f"t{self.given}", "expires_in": self.expires_in}
            return Say(200, json.dumps(body).encode())
        good = asked.headers["authorization"] == f"Bearer t{self.given}" and not self.revoked
        return EMPTY if good else Say(401)


def test_a_token_is_asked_for_once_and_again_when_it_is_revoked() -> None:
    tokens = TokenServer("3600")
    with scripted(tokens) as server:
        asking = server_of({**OAUTH, "scope": "read all"}, server.url)
        for _ in range(3):
            list(asking.shares())
        assert tokens.given == 1
        assert tokens.fields == {"grant_type": ["client_credentials"], "scope": ["read all"]}
        tokens.revoked = True
        list(asking.shares())
        assert tokens.given == 2


def test_a_token_is_renewed_before_it_ends() -> None:
    tokens = TokenServer(1000)
    with scripted(tokens) as server:
        asking = server_of(OAUTH, server.url)
        now = [0.0]
        asking._authorization._clock = lambda: now[0]
        for now[0], given in ((0, 1), (499, 1), (501, 2), (1000, 2), (1002, 3)):
            list(asking.shares())
            assert tokens.given == given, now


@pytest.mark.parametrize(
    "say",
    [
        Say(401, b'{"error":"invalid_client","error_description":"unknown client"}'),
        Say(200, b"{}"),
        Say(200, b'{"access_token":"x"}'),
        Say(200, b'{"access_token":5,"expires_in":5}'),
        Say(200, b'{"access_token":"a\\r\\nb","expires_in":5}'),
        Say(200, b'{"access_token":"x","expires_in":"soon"}'),
        Say(200, b"<html>"),
        Say(503),
    ],
)
def test_a_token_that_cannot_be_had_is_an_error(say: Say) -> None:
    with scripted(lambda _: say) as server, pytest.raises(StorageError) as caught:
        list(server_of(OAUTH, server.url).shares())
    assert "s3cret" not in f"{caught.value.message} {caught.value.hint} {caught.value.location}"


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with scripted(lambda _: EMPTY) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:pw@"))
        monkeypatch.setenv("no_proxy", "")
        far = {**V1, "endpoint": "http://far.example/ds"}
        list(SharingServer(parse(far, allow_http=True), Http(SOON)).shares())
        assert proxy.asked[0].path == "http://far.example/ds/shares"
        own = proxy.asked[0].headers["proxy-authorization"].removeprefix("Basic ")
        assert base64.b64decode(own) == b"me:pw"
        # What goes to this machine, perhaps without TLS, stays here.
        with scripted(lambda _: EMPTY) as server:
            near = {**V1, "endpoint": server.url}
            list(SharingServer(parse(near), Http(SOON)).shares())
            assert len(server.asked) == 1
    assert len(proxy.asked) == 1


@pytest.mark.parametrize("proxy", ["https://h:1", "socks5://h:1", "http://h:x", "http://:1"])
def test_a_proxy_that_cannot_be_spoken_to_is_named(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", proxy.replace("//", "//me:s3cret@"))
    with pytest.raises(StorageError, match="cannot be used") as caught:
        list(SharingServer(parse(V1), Http(SOON)).shares())
    assert "s3cret" not in caught.value.message
    monkeypatch.setenv("no_proxy", "x.example:443")
    with pytest.raises(StorageError, match=r"no host x\.example|cannot be reached"):
        list(SharingServer(parse(V1), Http(SOON)).shares())
