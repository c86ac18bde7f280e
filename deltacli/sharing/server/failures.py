"""A request that gets an error for an answer."""

from __future__ import annotations

from collections.abc import Mapping

INVALID = "INVALID_PARAMETER_VALUE"
MALFORMED = "MALFORMED_REQUEST"
UNSUPPORTED = "UNSUPPORTED_OPERATION"
MISSING = "RESOURCE_DOES_NOT_EXIST"


class Failure(Exception):
    """Status, error code and message; what the message says goes to the recipient."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        headers: Mapping[str, str] | None = None,
    ):
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})


def invalid(message: str) -> Failure:
    """A parameter has a value that it cannot have."""
    return Failure(400, INVALID, message)


def malformed(message: str, headers: Mapping[str, str] | None = None) -> Failure:
    """The request cannot be read."""
    return Failure(400, MALFORMED, message, headers)


def unsupported(message: str) -> Failure:
    """The table, or this client, cannot do what is asked."""
    return Failure(400, UNSUPPORTED, message)


def missing(message: str) -> Failure:
    """There is nothing of that name, or nothing that the recipient may see."""
    return Failure(404, MISSING, message)


def unauthenticated(message: str = "the bearer token is missing or wrong") -> Failure:
    return Failure(401, "UNAUTHENTICATED", message, {"www-authenticate": "Bearer"})


def forbidden(message: str) -> Failure:
    return Failure(403, "PERMISSION_DENIED", message)


def too_many(message: str, after_s: int) -> Failure:
    return Failure(429, "RESOURCE_EXHAUSTED", message, {"retry-after": str(max(after_s, 1))})
