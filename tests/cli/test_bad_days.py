"""Storages on bad days: throttling, answers that get lost, credentials that do not do."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.cli.test_remote import upload
from tests.conftest import ROOT, Result
from tests.gateway import CUT, LOST, Answer, Gateway, Request
from tests.places import Place, PlaceOf

Deltacli = Callable[..., Result]

WIDEN = ("amount", "decimal(12,4)", "--enable", "--yes", "-q")
SECRETS = ("Eby8vdM02xNOcqFl", "secret=")


@dataclass(frozen=True)
class Weather:
    """The sample table on a storage behind a gateway."""

    gateway: Gateway
    place: Place
    name: str
    deltacli: Deltacli

    def run(self, command: str, *words: str) -> Result:
        result = self.deltacli(command, self.place.url(self.name), *words, *self.place.flags)
        assert not any(one in result.stderr for one in SECRETS)
        return result

    def fields(self, command: str, *words: str) -> object:
        result = self.run(command, *words, "-q", "-o", "json")
        assert result.code == 0, result.stderr
        return json.loads(result.stdout)

    def version(self) -> int:
        """What the table's version really is."""
        self.gateway.fault = lambda request: None
        found = self.fields("snapshot", "--fields", "version")
        assert isinstance(found, dict)
        return int(found["version"])


@pytest.fixture(params=["s3", "azure", "gcs"])
def weather(
    request: pytest.FixtureRequest, place_of: PlaceOf, deltacli: Deltacli
) -> Iterator[Weather]:
    place = place_of(request.param)
    name = f"t-{uuid.uuid4().hex}"
    upload(ROOT / "examples/orders", place.store(name))
    with Gateway(place.endpoint) as gateway:
        yield Weather(gateway, place.through(gateway.endpoint), name, deltacli)


def first_time(fault: Answer | str) -> Callable[[Request], Answer | str | None]:
    return lambda request: fault if request.repeated == 0 else None


@pytest.mark.parametrize("status", [503, 429, 500])
def test_a_throttled_request_is_made_again(weather: Weather, status: int) -> None:
    clean = weather.fields("snapshot", "--fields", "version,numFiles,numRecords")
    seen: set[str] = set()

    def every_place_once(request: Request) -> Answer | None:
        # One failure of each kind of request: more would only take longer.
        kind = f"{request.method} {'list' if '?' in request.path else request.path[-12:]}"
        if kind in seen:
            return None
        seen.add(kind)
        return Answer(status)

    weather.gateway.fault = every_place_once
    assert weather.fields("snapshot", "--fields", "version,numFiles,numRecords") == clean
    assert len(seen) > 1


def test_a_lost_answer_to_a_write_is_no_second_commit(weather: Weather) -> None:
    weather.gateway.fault = lambda r: LOST if r.is_write and r.repeated == 0 else None
    result = weather.run("widen-type", *WIDEN)
    assert result.code == 0, result.stderr
    assert weather.version() == 12
    assert weather.run("validate", "-q", "--fail-on", "error").code == 0


def test_broken_connections_are_made_anew(weather: Weather) -> None:
    weather.gateway.fault = first_time(CUT)
    assert weather.fields("snapshot", "--fields", "version") == {"version": 11}


@pytest.mark.parametrize("status", [401, 403])
def test_credentials_that_do_not_do_are_told_at_once(weather: Weather, status: int) -> None:
    weather.gateway.fault = lambda request: Answer(status)
    for command in (("snapshot",), ("checkpoint", "--yes"), ("vacuum", "--yes")):
        result = weather.run(*command)
        assert result.code == 7
        error, hint = result.stderr.splitlines()
        assert error.startswith("error: no permission for ")
        assert hint.startswith("hint: check the credentials")
    assert len(weather.gateway.requests) < 20


EXPIRED = {
    "s3": Answer(
        400,
        b"<Error><Code>ExpiredToken</Code><Message>The token has expired.</Message></Error>",
        {"Content-Type": "application/xml"},
    ),
    "azure": Answer(
        403,
        b"<Error><Code>AuthenticationFailed</Code><Message>Signature not valid in the time frame"
        b"</Message></Error>",
        {"Content-Type": "application/xml", "x-ms-error-code": "AuthenticationFailed"},
    ),
    "gcs": Answer(
        401,
        b'{"error": {"code": 401, "message": "Request had invalid authentication credentials."}}',
        {"Content-Type": "application/json"},
    ),
}


def test_credentials_may_expire_in_the_middle(weather: Weather) -> None:
    """Nothing is half-written, and the next run finishes the job."""
    expired = EXPIRED[weather.place.kind]
    for point in range(3, 40, 6):
        weather.gateway.requests.clear()
        weather.gateway.fault = lambda r, point=point: expired if r.number >= point else None
        result = weather.run("checkpoint", "--yes", "-q")
        if result.code == 0:
            break
        assert result.code in (7, 8), result.stderr
        assert "redentials" in result.stderr, result.stderr
        assert weather.version() == 11
        assert weather.run("validate", "--level", "files", "-q", "--fail-on", "error").code == 0
    else:
        raise AssertionError("it never ends well")


def test_who_may_only_read_reads_and_changes_nothing(weather: Weather) -> None:
    def read_only(request: Request) -> Answer | None:
        return Answer(403) if request.is_write else None

    weather.gateway.fault = read_only
    for words in (
        ("history",), ("snapshot", "--files"), ("head",), ("validate", "--level", "files"),
        ("vacuum", "--dry-run"), ("checkpoint", "--dry-run"),
    ):  # fmt: skip
        assert weather.run(*words, "-q", "-o", "json").code == 0, words
    for words in (
        ("checkpoint", "--yes"), ("checkpoint", "--cleanup", "--yes"), ("widen-type", *WIDEN),
        ("vacuum", "--retain", "0h", "--allow-short-retention", "--allow-large", "--yes"),
    ):  # fmt: skip
        result = weather.run(*words)
        assert (result.code, "no permission for " in result.stderr) == (7, True), result.stderr
    assert weather.version() == 11
    assert weather.run("validate", "--level", "files", "-q", "--fail-on", "error").code == 0
