"""`share serve`: from options and configuration to a server that runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from deltacli.errors import DeltaCliError, Refused, StorageError
from deltacli.sharing.profile import Bearer, Profile, write_private
from deltacli.sharing.server.config import Config, load_config
from deltacli.sharing.server.failures import Failure
from deltacli.sharing.server.recipients import (
    EVERY_SHARE,
    Recipient,
    RecipientState,
    new_token,
)
from deltacli.sharing.server.seals import Seals, new_key
from deltacli.sharing.server.service import Access, Service, configured_recipients
from deltacli.sharing.server.telemetry import AuditLog, report

FOLDER_RECIPIENT = "recipient"
# What a running server cannot change.
_FIXED = {
    "host": "host",
    "port": "port",
    "endpoint": "endpoint",
    "public_url": "publicUrl",
    "admin": "admin",
    "audit_log": "auditLog",
    "grace_seconds": "shutdownGraceSeconds",
}


@dataclass(frozen=True)
class ServeRequest:
    """What is served and how. Without a path of a configuration, it is a folder."""

    config: Config
    config_path: str | None = None
    adjust: Callable[[Config], Config] = lambda config: config
    insecure: bool = False
    expires_ms: int | None = None
    profile_out: str | None = None
    is_debug: bool = False


def serve_shares(
    request: ServeRequest,
    now_ms: int,
    on_ready: Callable[[str, Service, Profile | None, list[str]], None],
) -> None:
    """Serve until the process is told to stop.

    `on_ready` gets the endpoint's URL, and what else there is to say.
    """
    try:
        from deltacli.sharing.server import listening, run
        from deltacli.sharing.server.app import SharingApp
    except ImportError as error:
        raise StorageError(
            f"sharing needs a package that is not installed: {error}",
            hint="pip install 'deltacli[server]'",
        ) from error

    config = request.config
    listening.check_exposure(config.host, has_tls=config.tls is not None, insecure=request.insecure)
    if config.admin is not None:
        listening.check_exposure(config.admin.host, has_tls=False, insecure=request.insecure)
    service, secret = _first_service(request, now_ms)
    audit = AuditLog(config.audit_log)
    with contextlib.ExitStack() as stack:
        stack.callback(audit.close)
        sockets = listening.bind(config.host, config.port)
        admin = listening.bind(config.admin.host, config.admin.port) if config.admin else []
        for one in (*sockets, *admin):
            stack.callback(one.close)
        notes = []
        if config.admin is not None:
            place = listening.Listening(config.admin.host, admin[0].getsockname()[1], "http")
            notes.append(f"health and metrics: {place.url}/-/health, {place.url}/-/metrics")
        tls = listening.tls_context(config.tls, config.host) if config.tls else None
        if tls is not None and config.tls and config.tls.self_signed:
            own_print = listening.fingerprint(tls)
            notes.append(f"the certificate was made for this run; its SHA-256 is {own_print}")
        scheme = "https" if tls else "http"
        own = listening.Listening(config.host, sockets[0].getsockname()[1], scheme)
        _check_public(config, service)
        base_url = listening.BaseUrl(own, config.public_url, config.endpoint)
        app = SharingApp(service, base_url, audit, is_debug=request.is_debug)
        endpoint = listening.endpoint_url(own, config.public_url, config.endpoint)
        profile = Profile(endpoint, Bearer(secret), request.expires_ms) if secret else None

        def ready() -> None:
            if profile is not None and request.profile_out is not None:
                write_private(request.profile_out, profile.text)
            on_ready(endpoint, service, profile, notes)

        path = request.config_path
        reload = None if path is None else lambda: _configured(request, path, now_ms)
        run.serve(run.Running(app, sockets, tls, admin, reload, audit), ready)


def _first_service(request: ServeRequest, now_ms: int) -> tuple[Service, str | None]:
    """The service, and the token of its one recipient if that is made for this run."""
    if request.config_path is None:
        secret, token = new_token(now_ms, request.expires_ms)
        recipient = Recipient(FOLDER_RECIPIENT, (EVERY_SHARE,), (token,), now_ms)
        return Service(request.config, Access(None, (recipient,)), Seals(new_key())), secret
    return _with_config(request.config, now_ms), None


def _configured(request: ServeRequest, path: str, now_ms: int) -> Service:
    """The service of the configuration as its file is now; where it listens stays."""
    new = request.adjust(load_config(path))
    old = request.config
    for name, key in _FIXED.items():
        if getattr(new, name) != getattr(old, name):
            report(f"warning: {key} changes when the server is started again")
    return _with_config(
        replace(
            new, host=old.host, port=old.port, endpoint=old.endpoint, public_url=old.public_url
        ),
        now_ms,
    )


def _with_config(config: Config, now_ms: int) -> Service:
    state = RecipientState(config.state or "")
    more = configured_recipients(config, now_ms)
    access = Access(state, more)
    if not any(one.tokens for one in access.current().known):
        raise Refused(
            "there is no recipient: nobody could read anything",
            hint="share recipient add makes one",
        )
    return Service(config, access, Seals(state.key()))


def _check_public(config: Config, service: Service) -> None:
    """Raise Refused where our own URLs would name an address that nobody can reach."""
    from deltacli.sharing.server.links import presigns

    if config.public_url is not None or config.host not in ("0.0.0.0", "::", ""):
        return
    for name, entry in service.catalog().tables():
        with contextlib.suppress(DeltaCliError, Failure):
            table = service.open(name, entry)
            if all(presigns(table, number) for number in range(len(table.roots))):
                continue
        raise Refused(
            f"the files of {name} are served by this server, at an address that is not known",
            hint="say publicUrl in the configuration, or --public-url",
        )
