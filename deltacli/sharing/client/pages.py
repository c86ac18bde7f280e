"""Tokens of pages: followed to the end, of which there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from deltacli.sharing.client.http import BadAnswer

P = TypeVar("P")

_MOST_PAGES = 100_000
# So many pages without anything in them are the work of a server that never ends.
_MOST_EMPTY = 100


def followed(
    first: P, token_of: Callable[[P], str | None], ask: Callable[[str], P], what: str
) -> Iterator[tuple[P, Callable[[], None]]]:
    """Each page, with a function to be called if there is something in it."""
    page, seen, empty = first, set[str](), 0
    while True:
        has_something = False

        def note() -> None:
            nonlocal has_something
            has_something = True

        yield page, note
        token = token_of(page)
        if not token:
            return
        empty = 0 if has_something else empty + 1
        if token in seen or empty > _MOST_EMPTY or len(seen) >= _MOST_PAGES:
            raise BadAnswer(f"{what} never ends")
        seen.add(token)
        page = ask(token)
