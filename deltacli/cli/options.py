"""The options that commands share: name, help and environment variable in one place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from deltacli.errors import DeltaCliError, Interrupted, UsageError
from deltacli.render.formats import FindingsFormat, Format

TableArg = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="Path or URL of the table: ./t, file:///t, s3://bucket/t, gs://…, abfss://…; "
        "t@v3 is its version 3.",
        show_default=False,
    ),
]
AllowCatalogOpt = Annotated[
    bool,
    typer.Option(
        "--allow-catalog-managed",
        help="Read a catalog-managed table by its published commits only.",
    ),
]


AtOpt = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="V|TIME",
        help="A version (42), a time (2026-01-31, 2026-01-31T10:00+01:00) or an age "
        "(3 days ago, 12h, 30m, yesterday).",
        show_default=False,
    ),
]


class Engine(StrEnum):
    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


EngineOpt = Annotated[
    Engine, typer.Option("--engine", help="Who does the work; auto takes Spark where it pays.")
]
SparkMasterOpt = Annotated[
    str | None,
    typer.Option(
        "--spark-master",
        metavar="URL",
        help="Where Spark runs: local[4], spark://host:7077, yarn, k8s://…",
        show_default=False,
    ),
]
SparkConfOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        metavar="KEY=VALUE",
        help="A setting for Spark; may be repeated.",
        show_default=False,
    ),
]
DryRunOpt = Annotated[
    bool, typer.Option("--dry-run", help="Show the whole plan and change nothing.")
]
YesOpt = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask; needed where nobody can be asked.")
]


def _common(*names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel="Common options", **settings)


@dataclass(frozen=True)
class CommonOptions:
    """What stands on every command."""

    output: Annotated[
        Format | FindingsFormat,
        _common(
            "-o",
            "--output",
            envvar="DELTACLI_OUTPUT",
            help="auto is table on a terminal and tsv on a pipe.",
        ),
    ] = Format.AUTO
    output_file: Annotated[
        str | None,
        _common(
            "--output-file",
            envvar="DELTACLI_OUTPUT_FILE",
            metavar="FILE",
            help="Write the result to a file, whole or not at all.",
            show_default=False,
        ),
    ] = None
    fields: Annotated[
        str | None,
        _common(
            "--fields",
            envvar="DELTACLI_FIELDS",
            metavar="A,B",
            help="Only these fields, in this order; others are not even read.",
            show_default=False,
        ),
    ] = None
    tz: Annotated[
        str,
        _common(
            "--tz",
            envvar="DELTACLI_TZ",
            metavar="ZONE",
            help="Time zone of tables and of times without one: UTC, local, Europe/Berlin.",
        ),
    ] = "UTC"
    storage_option: Annotated[
        list[str] | None,
        _common(
            "--storage-option",
            envvar="DELTACLI_STORAGE_OPTION",
            metavar="KEY=VALUE",
            help="Option for the storage driver; may be repeated.",
            show_default=False,
        ),
    ] = None
    quiet: Annotated[
        bool,
        _common(
            "-q",
            "--quiet",
            envvar="DELTACLI_QUIET",
            help="No warnings, notes or progress; no result of a change.",
        ),
    ] = False
    verbose: Annotated[
        bool,
        _common("-v", "--verbose", envvar="DELTACLI_VERBOSE", help="Say what is done and why."),
    ] = False
    debug: Annotated[
        bool,
        _common("--debug", envvar="DELTACLI_DEBUG", help="Show tracebacks of errors."),
    ] = False
    no_color: Annotated[
        bool,
        _common("--no-color", envvar="DELTACLI_NO_COLOR", help="No colours (also NO_COLOR)."),
    ] = False
    no_progress: Annotated[
        bool,
        _common("--no-progress", envvar="DELTACLI_NO_PROGRESS", help="No progress on stderr."),
    ] = False


ALL_COMMON = (
    "output",
    "output_file",
    "fields",
    "tz",
    "storage_option",
    "quiet",
    "verbose",
    "debug",
    "no_color",
    "no_progress",
)


def with_common_options(
    command: Callable[..., Any],
    names: Sequence[str] = ALL_COMMON,
    formats: type[StrEnum] = Format,
) -> Callable[..., None]:
    """A Typer callback for `command(options, …)`, with common options after its own.

    A parameter that is a dataclass of options stands for them. `formats` are those that its
    output can have.
    """
    own = inspect.signature(command, eval_str=True)
    _options, *rest = own.parameters.values()
    groups: dict[str, type[Any]] = {
        one.name: one.annotation
        for one in rest
        if isinstance(one.annotation, type) and is_dataclass(one.annotation)
    }
    grouped = [
        one
        for kind in groups.values()
        for one in inspect.signature(kind, eval_str=True).parameters.values()
    ]
    single = [one for one in rest if one.name not in groups]
    known = inspect.signature(CommonOptions, eval_str=True).parameters
    shared = [_with_formats(known[name], formats) for name in names]

    @functools.wraps(command)
    def callback(**values: Any) -> None:
        options = CommonOptions(**{name: values.pop(name) for name in names})
        for name, kind in groups.items():
            values[name] = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
        try:
            command(options, **values)
        except DeltaCliError as error:
            if not isinstance(error, UsageError | Interrupted):
                error.table = error.table or values.get("table")
            raise

    keyword_only = [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*single, *grouped, *shared)
    ]
    callback.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=keyword_only, return_annotation=None
    )
    callback.__annotations__ = {one.name: one.annotation for one in keyword_only}
    return callback


def _with_formats(parameter: inspect.Parameter, formats: type[StrEnum]) -> inspect.Parameter:
    if parameter.name != "output":
        return parameter
    (option,) = parameter.annotation.__metadata__
    return parameter.replace(annotation=Annotated[formats, option], default=formats("auto"))


def column_names(text: str | None) -> tuple[str, ...] | None:
    """The names of `--columns`."""
    names = None if text is None else tuple(one.strip() for one in text.split(","))
    if names is not None and not all(names):
        raise UsageError("--columns has an empty name", hint="write --columns id,total")
    return names
