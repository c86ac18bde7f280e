"""Shares, schemas and tables: what is listed, to whom, and page by page."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from deltacli.sharing.server.config import Config, SchemaEntry, ShareEntry, TableEntry
from deltacli.sharing.server.recipients import Recipient, Token, digest
from tests.sharing.serving import Server, serving

TABLES = tuple(TableEntry(f"/nowhere/{name}", name, id=f"id-{name}") for name in "dBac")
CONFIG = Config(
    shares=(
        ShareEntry("Vaccines", "11", (SchemaEntry("acme", TABLES), SchemaEntry("Beta", TABLES))),
        ShareEntry("sales.eu", None, (SchemaEntry("größe", TABLES[:1]),)),
        ShareEntry("empty", None, ()),
        ShareEntry("secret", None, (SchemaEntry("s", TABLES),)),
    )
)
OTHER, NOBODY = "dcs_other", "dcs_nobody"


def recipient(name: str, secret: str, *shares: str, expires_ms: int | None = None) -> Recipient:
    token = Token(digest(secret), secret[-4:], 0, expires_ms)
    return Recipient(name, shares, (token,), 0)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    more = (
        recipient("other", OTHER, "VACCINES", "sales.eu"),
        recipient("nobody", NOBODY),
        recipient("late", "dcs_late", "*", expires_ms=5),
    )
    with serving(CONFIG, *more) as running:
        yield running


def names(server: Server, path: str, size: int | None = None, token: str | None = None) -> list:
    """All names of a listing, page by page."""
    found, after, pages = [], "", 0
    while True:
        query = "&".join([f"maxResults={size}"] * (size is not None) + [after] * bool(after))
        body = server.get(f"{path}?{query}", token=token).json
        found += [one["name"] for one in body["items"]]
        assert size is None or len(body["items"]) <= size
        pages += 1
        if "nextPageToken" not in body:
            assert pages < 50
            return found
        after = f"pageToken={body['nextPageToken']}"


def test_shares_are_listed_in_order_with_their_ids(server: Server) -> None:
    reply = server.get("/shares")
    assert reply.json == {
        "items": [
            {"name": "empty"},
            {"name": "sales.eu"},
            {"name": "secret"},
            {"name": "Vaccines", "id": "11"},
        ]
    }
    assert reply.headers["content-type"] == "application/json; charset=utf-8"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.content.count(b"\n") == 1


def test_a_listing_has_the_names_as_configured_whatever_was_asked(server: Server) -> None:
    assert server.get("/shares/VACCINES").json == {"share": {"name": "Vaccines", "id": "11"}}
    reply = server.get("/shares/vaccines/schemas/ACME/tables").json
    assert [one["name"] for one in reply["items"]] == ["a", "B", "c", "d"]
    assert reply["items"][0] == {
        "name": "a", "schema": "acme", "share": "Vaccines", "shareId": "11", "id": "id-a",
    }  # fmt: skip
    assert server.get("/shares/empty/schemas").json == {"items": []}
    assert server.get("/shares/empty/all-tables/").json == {"items": []}


def test_names_are_decoded_once_after_the_path_is_split(server: Server) -> None:
    assert server.get("/shares/sales%2Eeu/schemas/gr%C3%B6%C3%9Fe/tables").status == 200
    assert server.get("/shares/sales%252Eeu").status == 404
    assert server.get("/shares/x%2Fschemas").status == 404
    assert server.get("/shares/%ff").status == 400
    assert server.get("/shares/vaccines/schemas/gr%C3%96SSE/tables").status == 404


@pytest.mark.parametrize("size", [1, 2, 3, 500, 2**31 - 1])
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/shares", ["empty", "sales.eu", "secret", "Vaccines"]),
        ("/shares/vaccines/schemas", ["acme", "Beta"]),
        ("/shares/vaccines/schemas/beta/tables", ["a", "B", "c", "d"]),
        ("/shares/vaccines/all-tables", ["a", "B", "c", "d"] * 2),
    ],
)
def test_pages_together_are_the_whole(
    server: Server, size: int, path: str, expected: list[str]
) -> None:
    assert names(server, path, size) == expected


def test_pages_may_have_different_sizes(server: Server) -> None:
    first = server.get("/shares?maxResults=1").json
    rest = server.get(f"/shares?maxResults=7&pageToken={first['nextPageToken']}").json
    assert [one["name"] for one in rest["items"]] == ["sales.eu", "secret", "Vaccines"]
    nothing = server.get(f"/shares?maxResults=0&pageToken={first['nextPageToken']}").json
    assert nothing["items"] == []
    assert server.get(f"/shares?pageToken={nothing['nextPageToken']}").json == rest
    whole = server.get(
        f"/shares?pageToken={server.get('/shares?maxResults=0').json['nextPageToken']}"
    )
    assert len(whole.json["items"]) == 4
    assert "nextPageToken" not in server.get("/shares/empty/schemas?maxResults=0").json


@pytest.mark.parametrize("value", ["-1", "x", "1.5", "", str(2**31), "9" * 30, "%00"])
def test_a_page_size_that_cannot_be_is_refused(server: Server, value: str) -> None:
    reply = server.get(f"/shares?maxResults={value}")
    assert reply.status == 400
    assert reply.json["errorCode"] == "INVALID_PARAMETER_VALUE"


def test_a_page_token_holds_for_its_listing_and_recipient_only(server: Server) -> None:
    token = server.get("/shares/vaccines/all-tables?maxResults=1").json["nextPageToken"]
    assert server.get(f"/shares/VACCINES/all-tables?pageToken={token}").status == 200
    for path in ("/shares", "/shares/secret/all-tables", "/shares/vaccines/schemas/acme/tables"):
        assert server.get(f"{path}?pageToken={token}").status == 400
    mine = server.get(f"/shares/vaccines/all-tables?pageToken={token}", token=OTHER)
    assert mine.status == 400


def test_no_character_of_a_page_token_can_be_changed(server: Server) -> None:
    token = server.get("/shares?maxResults=1").json["nextPageToken"]
    assert token.isascii()
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    changed = [
        token[:place] + ("B" if one != "B" else "C") + token[place + 1 :]
        for place, one in enumerate(token)
    ]
    for one in (*changed, token[:-1], token[1:], token * 2, token + "=", "A", "%20", "é"):
        assert server.get(f"/shares?pageToken={one.replace('é', '%C3%A9')}").status == 400


def test_what_is_not_granted_is_not_there(server: Server) -> None:
    assert names(server, "/shares", token=OTHER) == ["sales.eu", "Vaccines"]
    assert names(server, "/shares", 1, token=OTHER) == ["sales.eu", "Vaccines"]
    assert server.get("/shares", token=NOBODY).json == {"items": []}
    for path in ("", "/schemas", "/all-tables", "/schemas/s/tables", "/schemas/s/tables/a/version"):
        real = server.get(f"/shares/secret{path}", token=OTHER)
        made_up = server.get(f"/shares/nowhere{path}", token=OTHER)
        assert real.status == made_up.status == 404
        assert real.content.replace(b"secret", b"nowhere") == made_up.content


def test_a_missing_schema_or_table_is_missing(server: Server) -> None:
    schemas = "/shares/vaccines/schemas"
    for path in (f"{schemas}/x/tables", f"{schemas}/acme/tables/x/version", "/shares/x", "/nothing",
                 "/shares/vaccines/x"):  # fmt: skip
        reply = server.get(path)
        assert reply.status == 404
        assert reply.json["errorCode"] == "RESOURCE_DOES_NOT_EXIST"
        assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer wrong", "Basic {}", "{}", "Bearer {}x", "Bearer x{}"],
)
def test_without_the_right_token_nobody_gets_in(server: Server, header: str) -> None:
    reply = server.get("/shares", {"Authorization": header.format(server.token)})
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert reply.json == {
        "errorCode": "UNAUTHENTICATED",
        "message": "the bearer token is missing or wrong",
    }
    # Nothing is told of what exists.
    assert server.get("/nothing", {"Authorization": header.format(server.token)}).status == 401


def test_the_scheme_may_be_written_in_any_case(server: Server) -> None:
    assert server.get("/shares", {"Authorization": f"bEARER  {server.token}"}).status == 200


def test_an_expired_token_is_told_to_be_expired(server: Server) -> None:
    reply = server.get("/shares", token="dcs_late")
    assert reply.status == 401
    assert "expired" in reply.json["message"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_told_which_to_use(server: Server, method: str) -> None:
    reply = server.request(method, "/shares", b"")
    assert (reply.status, reply.headers["allow"]) == (405, "GET")


def test_unknown_parameters_are_passed_over(server: Server) -> None:
    assert server.get("/shares?purpose=none&maxResults=1&x=%F0").status == 200


def test_the_description_of_the_routes_needs_no_token(server: Server) -> None:
    found = server.get("/openapi.json", token="").json
    assert json.dumps(found)
    assert "/shares/{share}/all-tables" in found["paths"]
