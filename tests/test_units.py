from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from deltacli.errors import UsageError
from deltacli.units import (
    human_age,
    human_size,
    iso_time,
    location_of,
    parse_instant,
    parse_interval,
    parse_zone,
    without_secrets,
)

DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("interval 1 week", 7 * DAY),
        ("INTERVAL 30 Days", 30 * DAY),
        ("2 days 3 hours", 2 * DAY + 3 * 3_600_000),
        ("1 minute 1 second 1 millisecond 1000 microseconds", 61_002),
        ("interval 0 hours", 0),
    ],
)
def test_intervals(text: str, ms: int) -> None:
    assert parse_interval(text) == ms


@pytest.mark.parametrize(
    "text", ["1 month", "1 year", "-1 day", "1", "day", "", "interval", "1.5 days"]
)
def test_what_is_no_fixed_interval(text: str) -> None:
    with pytest.raises(ValueError, match="interval"):
        parse_interval(text)


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-01-31", "2026-01-30T23:00:00.000Z"),
        ("2026-01-31 10:00", "2026-01-31T09:00:00.000Z"),
        ("2026-01-31T10:00:00.1239", "2026-01-31T09:00:00.123Z"),
        ("2026-01-31T10:00+05:30", "2026-01-31T04:30:00.000Z"),
        ("2026-01-31T10:00Z", "2026-01-31T10:00:00.000Z"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_without_a_zone_is_in_the_given_one(text: str, iso: str) -> None:
    assert iso_time(parse_instant(text, zone=timezone(timedelta(hours=1)), now_ms=0)) == iso


def test_ages() -> None:
    assert parse_instant("3 days ago", zone=UTC, now_ms=10 * DAY) == 7 * DAY
    for text in ("3d", "72h", "3 days", "4320 min ago", "4320m"):
        assert parse_instant(text, zone=UTC, now_ms=10 * DAY) == 7 * DAY
    assert parse_instant("yesterday", zone=UTC, now_ms=10 * DAY + 5) == 9 * DAY
    assert parse_instant("today", zone=UTC, now_ms=10 * DAY + 5) == 10 * DAY
    assert parse_instant("now", zone=UTC, now_ms=5) == 5
    with pytest.raises(UsageError):
        parse_instant("yesterday-ish", zone=UTC, now_ms=0)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
        (2**63 - 1, "+292278994-08-17T07:12:55.807Z"),
        (-(2**63), "-292275055-05-16T16:47:04.192Z"),
    ],
)
def test_every_64_bit_instant_has_a_text(ms: int, text: str) -> None:
    assert iso_time(ms) == text


def test_zones() -> None:
    assert iso_time(0, parse_zone("Europe/Berlin")) == "1970-01-01T01:00:00.000+01:00"
    assert parse_zone("utc") is UTC
    with pytest.raises(UsageError):
        parse_zone("Mars/Olympus")


def test_texts_for_people() -> None:
    assert [human_size(n) for n in (0, 1023, 1024, 10**15)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "909.5 TiB",
    ]
    assert human_age(0, 2 * DAY) == "2 days ago"
    assert human_age(DAY, 0) == "in 1 day"
    assert human_age(5, 10) == "just now"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://AKIA:ab/cd@bucket/t", "s3://***@bucket/t"),
        ("at sftp://u:pa'ss@host:22/t now", "at sftp://***@host:22/t now"),
        ("'https://TOKEN@host/t'", "'https://***@host/t'"),
        ("http://u:p@h/a and http://v:q@i/b", "http://***@h/a and http://***@i/b"),
        *((f"{one}@host/t", f"{one.partition('://')[0]}://***@host/t") for one in (
            "sftp://u:a<b", "sftp://u:#pw", "sftp://u:12#34", "s3://AK:/ab", "s3://AK:12/ab",
            "s3://u:pa@ss/wd", "s3://u:pa/ss@wd",
        )),
        ("GET /t?sig=abc&x=1", "GET /t?sig=***&x=1"),
        *((one, one) for one in (
            "abfss://c@account.dfs.core.windows.net/t", "http://h:9000/t@x", "http://[::1]/a@b",
            "http://[::1]:9000/a@b", "hdfs://h:8020/a@b", "http://h/t?mail=a@b", "s3://b/p=a:b@c",
            "s3://arn:aws:s3:eu-west-1:1:accesspoint:n/t@x",
        )),
    ],
)  # fmt: skip
def test_urls_are_shown_without_secrets(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
    assert without_secrets(shown) == shown


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("sftp://u:a@b@host/t", "sftp://***@host/t"),
        ("https://TOKEN@host/t@x", "https://***@host/t@x"),
        *((one, one) for one in (
            "s3://arn:aws:s3:eu-west-1:1:accesspoint/n/t@x", "abfss://c@account/t:@x",
            "http://h:9000/t@x", "sftp://user@h/t",
        )),
    ],
)  # fmt: skip
def test_an_address_is_known_by_all_but_its_password(address: str, shown: str) -> None:
    assert location_of(address) == shown


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["x://" + ":" * 300_000, "://" * 100_000, "?sig" * 100_000])
def test_secrets_are_looked_for_in_one_go(text: str) -> None:
    assert without_secrets(text) == text
