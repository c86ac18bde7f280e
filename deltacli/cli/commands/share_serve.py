"""`deltacli share serve`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from deltacli.cli.options import CommonOptions
from deltacli.cli.session import Session
from deltacli.cli.sharing import CONFIG_VARIABLE, DEFAULT_EXPIRY, ProfileOutOpt, expiry
from deltacli.errors import UsageError

if TYPE_CHECKING:
    from deltacli.sharing.profile import Profile
    from deltacli.sharing.server.config import Config
    from deltacli.sharing.server.service import Service

COMMON = ("storage_option", "quiet", "verbose", "debug")
EXAMPLES = (
    ("deltacli share serve ./tables", "all tables of a folder, for this machine"),
    ("deltacli share serve ./tables --port 0 --profile-out me.share", "on a free port"),
    ("deltacli share serve -c shares.yaml", "for recipients of your own"),
    ("deltacli share serve -c shares.yaml --audit-log -", "with a line a request"),
)
_PORT = 8080
_SHOWN_TABLES = 5


def share_serve(
    options: CommonOptions,
    folder: Annotated[
        str | None,
        typer.Argument(
            metavar="[FOLDER]",
            help="A folder of tables, or a table: shared with history, for one recipient.",
            show_default=False,
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            "-c",
            "--config",
            envvar=CONFIG_VARIABLE,
            metavar="FILE",
            help="What is shared, in YAML; the reference server's is understood.",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            "--host", metavar="HOST", help="The address to listen on.", show_default=False
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            min=0,
            max=65_535,
            metavar="N",
            help="The port to listen on; 0 is a free one. Default: 8080, or what the YAML says.",
            show_default=False,
        ),
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            "--public-url",
            metavar="URL",
            help="Where recipients reach the server, if a proxy stands before it.",
            show_default=False,
        ),
    ] = None,
    profile_out: ProfileOutOpt = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires",
            metavar="DURATION",
            help="How long the token of a folder's recipient is good: 90d, 12h, or never. "
            "Default: 90d.",
            show_default=False,
        ),
    ] = None,
    tls_cert: Annotated[
        str | None,
        typer.Option(
            "--tls-cert", metavar="FILE", help="The certificate, in PEM.", show_default=False
        ),
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option("--tls-key", metavar="FILE", help="Its key, in PEM.", show_default=False),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Listen without TLS also where others can listen in."),
    ] = False,
    admin_port: Annotated[
        int | None,
        typer.Option(
            "--admin-port",
            min=0,
            max=65_535,
            metavar="N",
            help="A port of this machine for health and metrics.",
            show_default=False,
        ),
    ] = None,
    audit_log: Annotated[
        str | None,
        typer.Option(
            "--audit-log",
            metavar="FILE",
            help="Append a JSON object a request; - is standard error.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Serve tables by the Delta Sharing protocol.

    A folder is shared in one command: the share is called as the folder is, its schema
    `default`, each table as its own folder. One recipient is made for the run; its profile is
    shown, or written to a file. With a configuration, recipients are those of `share
    recipient`; SIGHUP reads it anew.

    SIGTERM and Ctrl-C end the server, with exit code 0, when all answers that have begun are
    finished, after a minute at most (shutdownGraceSeconds); said twice, at once.
    """
    from deltacli.operations.share_serve import ServeRequest, serve_shares
    from deltacli.sharing.profile import check_place
    from deltacli.sharing.server.config import load_config, with_listening

    session = Session(options)
    if folder is not None and config == os.environ.get(CONFIG_VARIABLE):
        # What is typed goes before what is only set.
        config = None
    if (folder is None) == (config is None):
        raise UsageError(
            "name a folder, or a configuration" + (", not both" if folder else ""),
            hint="deltacli share serve ./tables, or deltacli share serve -c shares.yaml",
        )
    if config is not None and (profile_out is not None or expires is not None):
        raise UsageError(
            "--profile-out and --expires go with a folder",
            hint="deltacli share recipient add makes the profiles of a configuration",
        )
    if profile_out is not None:
        check_place(profile_out, may_replace=True)

    def adjust(own: Config) -> Config:
        return with_listening(
            own,
            host=host,
            port=port,
            public_url=public_url,
            tls_files=(tls_cert, tls_key),
            admin_port=admin_port,
            audit_log=audit_log,
        )

    if config is not None:
        own = load_config(config)
        session.warn(own.warnings)
    else:
        own = _folder(session, folder or "")
    request = ServeRequest(
        adjust(own),
        config,
        adjust,
        insecure,
        expiry(expires or DEFAULT_EXPIRY, session.now_ms),
        profile_out,
        options.debug,
    )

    def on_ready(
        endpoint: str, service: Service, profile: Profile | None, notes: list[str]
    ) -> None:
        session.warn(service.catalog().warnings)
        if profile is not None and profile_out is None:
            session.show_text(profile.text)
        elif profile is not None:
            session.note(f"the profile is in {profile_out}")
        names = [str(name) for name, _ in service.catalog().tables()]
        more = f" and {len(names) - _SHOWN_TABLES} more" if len(names) > _SHOWN_TABLES else ""
        session.note(f"shared: {', '.join(names[:_SHOWN_TABLES]) or 'no table yet'}{more}")
        for one in notes:
            session.note(one)
        session.note(f"ready: {endpoint}; Ctrl-C ends it")

    serve_shares(request, session.now_ms, on_ready)


def _folder(session: Session, folder: str) -> Config:
    """The configuration of a folder of tables, or of one table."""
    from deltacli.sharing.server.config import folder_config

    own = folder_config(folder, session.storage_options)
    return replace(own, host="127.0.0.1", port=_PORT)
