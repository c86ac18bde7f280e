"""The Authorization header of a profile; OAuth tokens are fetched, and kept while good."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from deltacli.delta import json_text
from deltacli.errors import StorageError
from deltacli.sharing.client.failures import message_of
from deltacli.sharing.client.http import BadAnswer, Http, Request
from deltacli.sharing.client.proxies import basic
from deltacli.sharing.profile import Basic, Bearer, Credentials, OAuthClient

# A token is renewed so long before its end, or at half its life.
_EARLY_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    good_until: float


class Authorization:
    """Gives the header; `forget` is for when the server does not accept it."""

    def __init__(
        self, credentials: Credentials, http: Http, clock: Callable[[], float] = time.monotonic
    ):
        self._credentials = credentials
        self._http = http
        self._clock = clock
        self._token: _Token | None = None
        self._lock = threading.Lock()

    def header(self) -> str:
        if isinstance(self._credentials, Bearer):
            return f"Bearer {self._credentials.token}"
        if isinstance(self._credentials, Basic):
            return basic(self._credentials.username, self._credentials.password)
        with self._lock:
            if self._token is None or self._clock() >= self._token.good_until:
                self._token = self._fetched(self._credentials)
            return f"Bearer {self._token.text}"

    def forget(self) -> bool:
        """Drop a token that may have been revoked; whether there is another to be had."""
        with self._lock:
            had_one, self._token = self._token is not None, None
        return had_one

    def _fetched(self, client: OAuthClient) -> _Token:
        fields = {"grant_type": "client_credentials"}
        if client.scope:
            fields["scope"] = client.scope
        begun = self._clock()
        reply = self._http.ask(
            Request(
                "POST",
                client.token_endpoint,
                {
                    "Accept": "application/json",
                    "Authorization": basic(client.client_id, client.client_secret),
                    "Content-Type": "application/x-www-form-urlencoded",
                },
                urlencode(fields).encode(),
                most_bytes=1 << 20,
            )
        )
        if reply.status != 200:
            said = message_of(reply)
            raise StorageError(
                f"the token endpoint answers {reply.status}" + (f": {said}" if said else ""),
                hint="check clientId, clientSecret and scope in the profile",
                location=client.token_endpoint,
            )
        try:
            body: Any = json_text.load(reply.content.read())
            token, seconds = body["access_token"], float(body["expires_in"])
        except (ValueError, TypeError, KeyError):
            raise BadAnswer(
                "the token endpoint gives no access_token with its expires_in",
                location=client.token_endpoint,
            ) from None
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise BadAnswer("the token endpoint gives an access_token that is no text")
        return _Token(token, begun + max(seconds - _EARLY_SECONDS, seconds / 2))


__all__ = ["Authorization"]
