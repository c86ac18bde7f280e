"""Requests about a table, parsed and checked: what a client may ask, and what is refused.

Everything that can be told from the request alone is told here, before the table is even
looked for (seed: Read Data from a Table, Read Change Data Feed; reference 1.5, 1.6).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from deltacli.delta import json_text
from deltacli.sharing.server.failures import invalid, malformed

_MOST_INT, _MOST_LONG = 2**31 - 1, 2**63 - 1
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
# Date, time, and a zone: without one nobody knows which instant is meant.
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.(?P<fraction>[0-9]{1,9}))?)?"
    r"(?P<zone>[Zz]|[+-][0-9]{2}:?[0-9]{2})"
)


@dataclass(frozen=True, slots=True)
class Page:
    """How an answer is cut into pages, and what the client wants to be told of it."""

    max_files: int | None = None
    token: str | None = None
    wants_refresh: bool = False
    refresh_token: str | None = None

    @property
    def asks(self) -> bool:
        return self.max_files is not None or self.token is not None or self.wants_refresh


@dataclass(frozen=True, slots=True)
class Query:
    """The body of a query. At most one of version, timestamp and starting version is there."""

    sql_hints: tuple[str, ...] = ()
    json_hint: str | None = None
    limit: int | None = None
    version: int | None = None
    timestamp_ms: int | None = None
    starting_version: int | None = None
    ending_version: int | None = None
    page: Page = Page()

    @property
    def travels(self) -> bool:
        """Whether history has to be shared for it."""
        asked = (self.version, self.timestamp_ms, self.starting_version)
        return any(one is not None for one in asked)

    def digest(self) -> str:
        """What must not change from one page to the next."""
        asked = (
            self.sql_hints,
            self.json_hint,
            self.limit,
            self.version,
            self.timestamp_ms,
            self.starting_version,
            self.ending_version,
        )
        return _digest(asked)


@dataclass(frozen=True, slots=True)
class Changes:
    """The parameters of a change data query; of each pair, at most one is there."""

    starting_version: int | None = None
    starting_ms: int | None = None
    ending_version: int | None = None
    ending_ms: int | None = None
    historical_metadata: bool = False
    page: Page = Page()

    def digest(self) -> str:
        asked = (
            self.starting_version,
            self.starting_ms,
            self.ending_version,
            self.ending_ms,
            self.historical_metadata,
        )
        return _digest(asked)


def _digest(asked: Sequence[Any]) -> str:
    return hashlib.sha256(json_text.dump(list(asked))).hexdigest()[:32]


def parse_query(content: bytes) -> Query:
    """The query in a request's body. Raises Failure."""
    if not content.strip():
        raise malformed("the body is empty; send {} for a query without parameters")
    try:
        body = json_text.load(content)
    except ValueError:
        raise malformed("the body is not JSON") from None
    if not isinstance(body, dict):
        raise malformed("the body is not a JSON object")
    hints = body.get("predicateHints")
    if hints is not None and not (
        isinstance(hints, list) and all(isinstance(one, str) for one in hints)
    ):
        raise malformed("predicateHints is not a list of strings")
    limit = _int_field(body, "limitHint", _MOST_LONG)
    query = Query(
        tuple(hints or ()),
        _hint_text(body.get("jsonPredicateHints")),
        # A hint never fails.
        None if limit is None or limit < 0 else limit,
        _version(_int_field(body, "version", _MOST_LONG), "table version"),
        _time_field(body, "timestamp"),
        _version(_int_field(body, "startingVersion", _MOST_LONG), "startingVersion"),
        _int_field(body, "endingVersion", _MOST_LONG),
        Page(
            _max_files(_int_field(body, "maxFiles", _MOST_LONG)),
            _text_field(body, "pageToken"),
            _flag_field(body, "includeRefreshToken"),
            _text_field(body, "refreshToken"),
        ),
    )
    _check_query(query)
    return query


def _hint_text(hint: Any) -> str | None:
    """The text of a JSON hint; what is none says nothing, like an empty one."""
    return hint if isinstance(hint, str | None) else ""


def _check_query(query: Query) -> None:
    given = (query.version, query.timestamp_ms, query.starting_version)
    if sum(one is not None for one in given) > 1:
        raise invalid("Please only provide one of: version,timestamp,startingVersion")
    if query.starting_version is not None:
        _version(query.ending_version, "endingVersion")
    _check_order(query.starting_version, query.ending_version)
    page = query.page
    if page.wants_refresh and (query.travels or page.token):
        raise invalid("includeRefreshToken goes with neither versions nor a pageToken")
    if page.refresh_token and (query.travels or page.token):
        raise invalid("refreshToken goes with neither versions nor a pageToken")


def _check_order(start: int | None, end: int | None) -> None:
    if start is not None and end is not None and start > end:
        raise invalid(f"startingVersion {start} is after endingVersion {end}")


def parse_changes(parameters: Mapping[str, str]) -> Changes:
    """The query parameters of a request for changes. Raises Failure."""
    changes = Changes(
        _version(long_parameter(parameters, "startingVersion"), "startingVersion"),
        time_parameter(parameters, "startingTimestamp"),
        _version(long_parameter(parameters, "endingVersion"), "endingVersion"),
        time_parameter(parameters, "endingTimestamp"),
        flag_parameter(parameters, "includeHistoricalMetadata"),
        Page(
            _max_files(long_parameter(parameters, "maxFiles")), parameters.get("pageToken") or None
        ),
    )
    if changes.starting_version is None and changes.starting_ms is None:
        raise invalid("No startingVersion or startingTimestamp provided for CDF read.")
    if changes.starting_version is not None and changes.starting_ms is not None:
        raise invalid("Multiple starting arguments provided for CDF read.")
    if changes.ending_version is not None and changes.ending_ms is not None:
        raise invalid("Multiple ending arguments provided for CDF read.")
    _check_order(changes.starting_version, changes.ending_version)
    return changes


@dataclass(frozen=True, slots=True)
class MetadataAt:
    """Which version's metadata is asked for: the newest by default."""

    version: int | None = None
    timestamp_ms: int | None = None


def parse_metadata_request(parameters: Mapping[str, str]) -> MetadataAt:
    version = _version(long_parameter(parameters, "version"), "table version")
    timestamp_ms = time_parameter(parameters, "timestamp")
    if version is not None and timestamp_ms is not None:
        raise invalid("Please only provide one of: version,timestamp")
    return MetadataAt(version, timestamp_ms)


# -- one value ---------------------------------------------------------------------------


def _int_field(body: Mapping[str, Any], name: str, most: int) -> int | None:
    """A whole number, also as a text: clients write 64-bit numbers so."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if type(value) is not int:
        raise malformed(f"{name} is not a whole number")
    return _within(value, name, most)


def _within(value: int, name: str, most: int) -> int:
    if not -most - 1 <= value <= most:
        raise invalid(f"{name} is out of range")
    return value


def _text_field(body: Mapping[str, Any], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise malformed(f"{name} is not a string")
    return value or None


def _flag_field(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise malformed(f"{name} is neither true nor false")
    return bool(value)


def _time_field(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise malformed(f"{name} is not a string")
    return None if value is None else parse_timestamp(value, name)


def long_parameter(parameters: Mapping[str, str], name: str) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    if not _WHOLE.fullmatch(text):
        raise invalid(f"expected a number for {name}")
    return _within(int(text), name, _MOST_LONG)


def time_parameter(parameters: Mapping[str, str], name: str) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    # A plus sign that nobody encoded arrives as a space. What begins at a time does not
    # take in a commit just before it.
    is_start = name.startswith("starting")
    return parse_timestamp(re.sub(r" (?=[0-9:]{4,5}$)", "+", text), name, up=is_start)


def flag_parameter(parameters: Mapping[str, str], name: str) -> bool:
    text = parameters.get(name, "").lower()
    if text not in ("", "true", "false"):
        raise invalid(f"{name} is neither true nor false")
    return text == "true"


def page_size_parameter(parameters: Mapping[str, str], most: int) -> int:
    """How many names a page of a listing may have."""
    text = parameters.get("maxResults")
    if text is None:
        return most
    if not _WHOLE.fullmatch(text):
        raise invalid("expected a number for maxResults")
    if not 0 <= int(text) <= _MOST_INT:
        raise invalid("maxResults must be between 0 and 2147483647")
    return min(int(text), most)


def _version(value: int | None, name: str) -> int | None:
    if value is not None and value < 0:
        raise invalid(f"{name} cannot be negative")
    return value


def _max_files(value: int | None) -> int | None:
    if value is not None and not 0 < value <= _MOST_INT:
        raise invalid("maxFiles must be positive")
    return value


def parse_timestamp(text: str, name: str, *, up: bool = False) -> int:
    """Epoch milliseconds of an ISO-8601 time with a zone (seed: Timestamp Format).

    Parts of a millisecond are cut off, or rounded `up`.
    """
    match = _TIMESTAMP.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        fraction = match["fraction"] or ""
        # Python reads six digits at most.
        plain = text.replace(f".{fraction}", f".{fraction[:6]}") if fraction else text
        moment = datetime.fromisoformat(plain.upper())
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError):
        raise invalid(
            f"{name} is not a timestamp in ISO 8601 with a time zone, such as 2022-01-01T00:00:00Z"
        ) from None
    cut = since // timedelta(milliseconds=1)
    return cut + 1 if up and fraction[3:].strip("0") else cut
