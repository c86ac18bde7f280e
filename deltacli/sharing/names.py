"""Names of shares, schemas and tables: which are legal, and when two are the same."""

from __future__ import annotations

_MOST_CHARACTERS = 255


def same_name(name: str) -> str:
    """The form in which two spellings of one name are equal: case does not matter."""
    return name.casefold()


def name_problem(name: str, *, may_have_dots: bool) -> str | None:
    """Why a name cannot be used, or None. Only names of shares may have dots."""
    if not name:
        return "it is empty"
    if len(name) > _MOST_CHARACTERS:
        return f"it is longer than {_MOST_CHARACTERS} characters"
    for one in name:
        if one in " /\x7f" or one < " ":
            return f"it has {one!r} in it"
    if "." in name and not may_have_dots:
        return "it has a dot in it"
    return None


def address_problem(name: str) -> str | None:
    """Why common clients, which do not encode names in URLs, cannot reach one; or None."""
    odd = sorted({one for one in name if one in "#?%"})
    return f"it has {' '.join(odd)} in it, which common clients do not encode" if odd else None
