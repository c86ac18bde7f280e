"""Times, durations and sizes: parsed from what people and tables write, and written back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise

from deltacli.errors import UsageError

_UNIT_MICROS = {
    "week": 7 * 86_400_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_SHORT_MS = {
    "w": 7 * 86_400_000,
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AGO = re.compile(
    r"([0-9]{1,9})\s*(?:(w|d|h|m|s)|(?:(week|day|hour|min|minute|second|sec)s?))(?:\s+ago)?",
    re.IGNORECASE,
)


def parse_interval(text: str) -> int:
    """Milliseconds of an interval property such as `interval 1 week` (rule R-24).

    Raises ValueError for anything that is not a sum of fixed, non-negative units.
    """
    words = text.strip().lower().split()
    if words and words[0] == "interval":
        words = words[1:]
    if not words or len(words) % 2:
        raise ValueError(f"not an interval: {text!r}")
    micros = 0
    for number, unit in zip(words[::2], words[1::2], strict=True):
        size = _UNIT_MICROS.get(unit.removesuffix("s"))
        if size is None or not number.isascii() or not number.isdigit():
            raise ValueError(f"not an interval of weeks to microseconds: {text!r}")
        micros += int(number) * size
    return micros // 1000


def parse_duration(text: str) -> int:
    """Milliseconds of a duration as a person types it: `7d`, `168h`, `1h30m`, `interval 1 week`."""
    compact = text.strip().lower()
    part = r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*(ms|[wdhms])\s*"
    if re.fullmatch(f"(?:{part})+", compact):
        return round(
            sum(float(number) * _SHORT_MS[unit] for number, unit in re.findall(part, compact))
        )
    try:
        return parse_interval(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a duration", hint="write it as 7d, 168h, 30m or `interval 1 week`"
        ) from None


def parse_zone(name: str) -> tzinfo:
    """The time zone of a name such as `UTC`, `local` or `Europe/Berlin`."""
    if name.lower() == "local":
        return datetime.now().astimezone().tzinfo or UTC
    if name.upper() in ("UTC", "Z"):
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"unknown time zone {name!r}", hint="use UTC, local or a name such as Europe/Berlin"
        ) from None


def parse_instant(text: str, *, zone: tzinfo, now_ms: int) -> int:
    """Epoch milliseconds of a date, an ISO-8601 time or `3 days ago`; a bare time is in `zone`."""
    text = text.strip()
    if text.lower() == "now":
        return now_ms
    if ago := _AGO.fullmatch(text):
        return now_ms - int(ago[1]) * _SHORT_MS[(ago[2] or ago[3])[0].lower()]
    if text.lower() in ("today", "yesterday"):
        days = 0 if text.lower() == "today" else 1
        today = (_EPOCH + timedelta(milliseconds=now_ms)).astimezone(zone).date()
        text = (today - timedelta(days=days)).isoformat()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is neither a version nor a time",
            hint="write a version (42), a date (2026-01-31), a time (2026-01-31T10:00+01:00) "
            "or an age (3 days ago, 12h, 30m, yesterday)",
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    # Whole milliseconds, rounded down, without a float in between.
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def iso_time(timestamp_ms: int | None, zone: tzinfo = UTC) -> str | None:
    """ISO-8601 with milliseconds, `Z` in UTC; any 64-bit instant has a text."""
    if timestamp_ms is None:
        return None
    seconds, ms = divmod(timestamp_ms, 1000)
    if -62_135_596_800 + 86_400 <= seconds < 253_402_300_800 - 86_400:
        moment = _EPOCH + timedelta(seconds=seconds)
        if zone is UTC:
            return f"{moment.isoformat()[:19]}.{ms:03}Z"
        text = moment.astimezone(zone).replace(tzinfo=None).isoformat(timespec="seconds")
        offset = moment.astimezone(zone).strftime("%z")
        tail = "Z" if offset == "+0000" else f"{offset[:3]}:{offset[3:5]}"
        return f"{text}.{ms:03}{tail}"
    days, second = divmod(seconds, 86_400)
    year, month, day = _civil(days)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{ms:03}"
    return f"{year:+07}-{month:02}-{day:02}T{clock}Z"


def _civil(days: int) -> tuple[int, int, int]:
    """The proleptic Gregorian date of a day number since 1970-01-01, for any year."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return (
        year_of_era + era * 400 + (month <= 2),
        month,
        day_of_year - (153 * shifted + 2) // 5 + 1,
    )


# More than this nobody has; a number made up may be too long for a float.
_MOST_BYTES = 1 << 1000


def counted(number: int, what: str) -> str:
    """A number and what it counts: `1 file`, `2,000 files`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def human_size(size: int | None) -> str:
    """A binary size for people: `12 B`, `3.4 KiB`, `1.2 TiB`."""
    if size is None:
        return ""
    amount = float(min(size, _MOST_BYTES))
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(amount) < 1024 or unit == "PiB":
            return f"{size} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("the last unit ends the loop")


def human_age(timestamp_ms: int | None, now_ms: int) -> str:
    """How long ago, in the largest fitting unit: `3 days ago`, `in 2 hours`, `just now`."""
    if timestamp_ms is None:
        return ""
    delta = now_ms - timestamp_ms
    for unit, size in (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000)):
        count = abs(delta) // size
        if count:
            text = f"{count:,} {unit}{'s' if count > 1 else ''}"
            return f"{text} ago" if delta > 0 else f"in {text}"
    return "just now"


def is_text(value: str) -> bool:
    """Whether a string can be written: lone surrogates are no text."""
    return value.isascii() or not any("\ud800" <= one <= "\udfff" for one in value)


def escaped(text: str) -> str:
    """Text in which nothing steers a terminal or starts a new line."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "replace").decode()
        for one in text.encode("utf-8", "replace").decode()
    )


_NO_URL = re.compile(r"[\s\"]")
_SCHEME = re.compile(r"[A-Za-z0-9+.-]{1,20}\Z")
_HOST = re.compile(r"([^:]*|\[.*\])(:[0-9]+)?")
# No port belongs to them, but a name may be that of an access point.
_BUCKETS = ("s3", "s3a", "s3n", "gs", "gcs", "abfs", "abfss", "az")
_BUCKET = re.compile(r"arn:|[^:]*\Z")
_SIGNATURE = re.compile(
    r"([?&](?:sig|signature|token|access_token|sas|awsaccesskeyid|googleaccessid"
    r"|x-(?:amz|goog)-(?:signature|credential|security-token))=)(?!\*\*\*)[^&#\s'\"]+",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Text whose URLs show no password and no signature; rather too little than too much."""
    if "://" in text:
        parts = text.split("://")
        shown = parts[:1]
        for before, part in pairwise(parts):
            end = _NO_URL.search(part)
            url = part[: end.start()] if end else part
            shown.append(_without_user(url, _SCHEME.search(before)) + part[len(url) :])
        text = "://".join(shown)
    return _SIGNATURE.sub(r"\1***", text)


def _without_user(rest: str, scheme: re.Match[str] | None) -> str:
    """What follows `://` without a password, which may have any character."""
    at = rest.rfind("@")
    authority = rest.partition("/")[0]
    name = scheme[0].lower() if scheme else ""
    if "@" in authority:
        # On the web a user's name is a secret, too; elsewhere it may be a container.
        is_secret = ":" in authority[: authority.rindex("@")] or name in ("http", "https")
    else:
        # Keys have slashes. What goes before them is a host with a port, or no place at all.
        is_place = _BUCKET.match(authority) if name in _BUCKETS else _HOST.fullmatch(authority)
        is_secret = at >= 0 and not is_place
    return f"***{rest[at:]}" if is_secret else rest


def location_of(address: str) -> str:
    """What an address is known by: all of it but its password, so that no two are the same."""
    scheme, mark, rest = address.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, _ = authority.rpartition("@")
    if at and (":" in user or scheme in ("http", "https")):
        rest = f"***{rest[len(user) :]}"
    return _SIGNATURE.sub(r"\1***", f"{scheme}{mark}{rest}")


def human_span(duration_ms: int) -> str:
    """A duration in whole units, rounded down: `7d`, `1d 12h`, `1h 30m`, `0s`."""
    units = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
    parts = []
    for unit, size in units:
        count, duration_ms = divmod(max(duration_ms, 0), size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def ranges(numbers: Iterable[int]) -> str:
    """`0, 3 to 7`: ascending numbers with runs folded."""
    runs: list[tuple[int, int]] = []
    for one in numbers:
        if runs and one == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], one)
        else:
            runs.append((one, one))
    return joined_runs(runs)


def joined_runs(runs: Iterable[tuple[int, int]]) -> str:
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)
