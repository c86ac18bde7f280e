"""One run of a command: its store, its snapshot, its output and its talk on stderr."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from deltacli.cli.engines import EngineWish
from deltacli.cli.failure import failure_text
from deltacli.cli.options import CommonOptions
from deltacli.cli.places import (
    TextSink,
    check_place,
    harmless,
    is_terminal,
    whole_file,
    writing_to,
)
from deltacli.cli.progress import Progress
from deltacli.errors import DeltaCliError, NotFound, UsageError
from deltacli.operations.records import Document, Listing, Report, check_fields, check_report_fields
from deltacli.render.formats import FindingsFormat, Format
from deltacli.storage import LogStore, open_store
from deltacli.units import escaped, iso_time, parse_instant, parse_zone, without_secrets

if TYPE_CHECKING:
    # Imported where they are used: not every command rebuilds a state, and start-up counts.
    from deltacli.delta.engine import Engine
    from deltacli.delta.segment import LogListing
    from deltacli.delta.snapshot import Snapshot
    from deltacli.render.table import People
    from deltacli.spark.session import SparkSettings


F = TypeVar("F", Format, FindingsFormat)


class Session:
    """What a command needs besides its own arguments."""

    def __init__(self, options: CommonOptions, wish: EngineWish | None = None):
        self.options = options
        self.wish = wish or EngineWish()
        self.now_ms = time.time_ns() // 1_000_000
        self.zone = parse_zone(options.tz)
        if options.output_file == "":
            raise UsageError("--output-file names no file", hint="name one, or leave it out")
        self._progress = Progress(enabled=self._shows_progress())

    # -- reading -------------------------------------------------------------------------

    @cached_property
    def storage_options(self) -> Mapping[str, str]:
        pairs = {}
        for position, text in enumerate(self.options.storage_option or (), 1):
            key, equals, value = text.partition("=")
            if not equals or not key:
                raise UsageError(
                    # It may be a secret as it is.
                    f"--storage-option is not KEY=VALUE (number {position} of them)",
                    hint="write it as --storage-option region_name=eu-west-1; those of the "
                    "environment variable DELTACLI_STORAGE_OPTION count too",
                )
            pairs[key] = value
        return pairs

    def open(self, table: str) -> tuple[LogStore, str | None]:
        """The store of a table, and the version or time after an `@` (rule S-10).

        A folder that is really called so wins.
        """
        store = open_store(table, self.storage_options)
        if not table:
            raise UsageError("TABLE is empty", hint="name a folder or URL; . is this folder")
        match = re.fullmatch(r"(.+)@(v[0-9]{1,19}|[0-9]{17})", table)
        if match and not _exists(store):
            return open_store(match[1], self.storage_options), _version_or_time(match[2])
        return store, None

    def engine(self) -> Engine:
        return self._engine

    @cached_property
    def _engine(self) -> Engine:
        self.explain(self.wish.reason)
        return self.wish.engine(self.spark_settings)

    def spark_settings(self) -> SparkSettings:
        def on_tasks(done: int, total: int) -> None:
            self._progress("Spark tasks", done, total)

        settings = self.wish.settings(on_tasks, is_verbose=self.options.debug)
        self.explain(f"Spark runs on {settings.master}")
        return settings

    def snapshot(
        self, table: str, at: str | None = None, *, allow_catalog_managed: bool = False
    ) -> Snapshot:
        """The table's newest snapshot, or that of a version or time."""
        store, own = self.open(table)
        at = one_version(table, own, at)
        return self.load(store, at, allow_catalog_managed=allow_catalog_managed)

    def load(
        self, store: LogStore, at: str | None = None, *, allow_catalog_managed: bool = False
    ) -> Snapshot:
        """A snapshot of a table that is open."""
        load = _Loader(store, self.engine, allow_catalog_managed, self._progress)
        try:
            with self._progress:
                snapshot = self._load(load, at)
        except DeltaCliError as error:
            error.location = error.location or store.location
            raise
        checkpoint = snapshot.segment.checkpoint
        base = f"the checkpoint at {checkpoint.version} and " if checkpoint else ""
        self.explain(
            f"version {snapshot.version} is rebuilt from {base}"
            f"{len(snapshot.segment.commits)} commits"
        )
        return snapshot

    def other_version(self, known: Snapshot, at: str) -> Snapshot:
        """Another version of the table of a snapshot."""
        load = _Loader(known.store, self.engine, True, self._progress)
        with self._progress:
            return self._load(load, at)

    def _load(self, load: _Loader, at: str | None) -> Snapshot:
        if at is None:
            return load()
        if re.fullmatch(r"v?[0-9]{1,19}", at):
            snapshot = load(int(at.removeprefix("v")))
        else:
            instant = parse_instant(at, zone=self.zone, now_ms=self.now_ms)
            snapshot = self._load_at_time(load, instant)
        self._warn_of_age(snapshot)
        return snapshot

    def _load_at_time(self, load: _Loader, instant: int) -> Snapshot:
        """The newest version that was there at a time (rules S-3 … S-8)."""
        from deltacli.delta.history import in_commit_times, version_at
        from deltacli.delta.segment import list_log

        listing = list_log(load.store)
        newest = load(listing=listing)
        times = in_commit_times(newest.metadata.configuration, newest.warnings)
        candidates = [version for version, possible in listing.rebuildable().items() if possible]
        version, oldest_ms, newest_ms = version_at(instant, load.store, listing, times, candidates)
        asked = iso_time(instant, self.zone)
        if version is None:
            raise NotFound(
                f"no version is as old as {asked}",
                hint=f"the oldest that can be read is of {iso_time(oldest_ms, self.zone)}",
                location=load.store.location,
            )
        if newest_ms is not None and instant > max(newest_ms, self.now_ms):
            raise NotFound(
                f"{asked} is in the future; the newest commit is of "
                f"{iso_time(newest_ms, self.zone)}",
                hint="leave --at out for the newest version",
                location=load.store.location,
            )
        self.note(f"{asked} is version {version}")
        return load(version, listing=listing)

    def _warn_of_age(self, snapshot: Snapshot) -> None:
        from deltacli.delta.tolerance import Remark

        retained_ms = snapshot.setting("delta.deletedFileRetentionDuration")
        stamp = snapshot.time.timestamp_ms
        newest = snapshot.version == snapshot.whole_listing.latest
        if not newest and stamp is not None and stamp < self.now_ms - retained_ms:
            snapshot.warnings.append(
                Remark(
                    f"removed files are kept for less time than has passed since version "
                    f"{snapshot.version}: vacuum may have deleted data files that it needs"
                )
            )

    # -- output --------------------------------------------------------------------------

    @cached_property
    def fields(self) -> tuple[str, ...] | None:
        if self.options.fields is None:
            return None
        names = tuple(name.strip() for name in self.options.fields.split(",") if name.strip())
        if not names:
            raise UsageError(
                "--fields names no field", hint="write names between commas, or leave it out"
            )
        return names

    @cached_property
    def format(self) -> Format:
        name = self._chosen_format(Format).value
        if name not in list(Format):
            raise UsageError(f"{name} is for findings", hint="use json, jsonl, csv or table here")
        return Format(name)

    @property
    def findings_format(self) -> FindingsFormat:
        return self._chosen_format(FindingsFormat)

    def _chosen_format(self, formats: type[F]) -> F:
        """What --output says, or the name of the output file, or where the output goes."""
        chosen = self.options.output.value
        suffix = os.path.splitext(self.options.output_file or "")[1].removeprefix(".")
        if chosen == "auto" and suffix in list(formats):
            return formats(suffix)
        if chosen not in list(formats):
            # A format of its own, for what has no such form.
            return formats("auto").resolved(on_terminal=self._stdout_is_terminal)
        return formats(chosen).resolved(on_terminal=self._stdout_is_terminal)

    @property
    def _stdout_is_terminal(self) -> bool:
        return self.options.output_file is None and is_terminal(sys.stdout)

    def show(self, result: Document | Listing) -> None:
        """Write a result to stdout or the output file."""
        if self.fields and isinstance(result, Listing):
            check_fields(self.fields, result.fields)
        elif self.fields and isinstance(result, Document) and not result.is_chosen:
            result = result.choose(self.fields)
        with self._progress, self._sink() as write:
            if self.format is Format.TABLE:
                self._show_table(result, write)
            elif isinstance(result, Document):
                from deltacli.render.records import render_document

                render_document(result, self.format, write)
            else:
                from deltacli.render.records import render_listing

                render_listing(result, self.fields, self.format, write)

    @property
    def is_silent(self) -> bool:
        """Whether nobody wants to hear that a change was made: `-q`, and no format asked for."""
        given = self.options
        wished = given.output is not Format.AUTO or given.output_file or given.fields
        return given.quiet and not wished

    def show_done(self, result: Document) -> None:
        """What a command has changed."""
        if not self.is_silent:
            self.show(result)

    def check_report(
        self, document: Sequence[str], rows: Sequence[str], *, beside: str | None
    ) -> None:
        """Raise what would go wrong with the output later, when it is too late."""
        check_report_fields(self.fields or (), document, rows)
        self.check_places(beside)

    def check_places(self, beside: str | None) -> None:
        """Raise what would go wrong with writing the output, and a file beside it, later."""
        places = [path for path in (self.options.output_file, beside) if path is not None]
        for path in places:
            check_place(path)
        if len({os.path.realpath(path) for path in places}) < len(places):
            raise UsageError("two results go to one file", hint="name two files")
        if beside is not None and os.path.exists(beside) and not os.path.isfile(beside):
            raise UsageError(f"{beside} is not a file", hint="name a file; others stay as they are")

    def show_reports(self, reports: Sequence[Report], *, many: bool = False) -> None:
        """Write reports to one place: one as it is, many side by side."""
        fields = self.fields
        for one in reports if fields else ():
            rows = one.rows.fields if one.rows else ()
            check_report_fields(fields or (), one.fields, rows)
        if fields and reports and set(fields) <= set(reports[0].fields):
            reports = [one.choose(fields) for one in reports]
        with self._progress, self._sink() as write:
            if self.format is Format.TABLE:
                for one in reports:
                    if one.rows is not None and (one.lists_rows or fields):
                        self._show_table(one.rows, write)
                    if not (fields and one.rows):
                        self._show_table(one.document, write)
            else:
                from deltacli.render.records import render_reports

                render_reports(reports, fields, self.format, write, many=many)

    def show_people(self, show: Callable[[People], None]) -> None:
        """Let something be written for people, by rich."""
        from deltacli.render.table import People

        with self._progress, self._sink() as write:
            sink = TextSink(write, is_terminal=self._stdout_is_terminal)
            color = not self.options.no_color
            show(People(sink, zone=self.zone, now_ms=self.now_ms, color=color))

    def show_text(self, text: str) -> None:
        """A result that is text already, such as a script."""
        with self._sink() as write:
            write(text.encode())

    def _show_table(self, result: Document | Listing, write: Callable[[bytes], object]) -> None:
        from deltacli.render.table import People, show_document, show_listing

        sink = TextSink(write, is_terminal=self._stdout_is_terminal)
        people = People(sink, zone=self.zone, now_ms=self.now_ms, color=not self.options.no_color)
        if isinstance(result, Document):
            show_document(result, people)
        else:
            show_listing(result, self.fields, people)

    @contextlib.contextmanager
    def _sink(self) -> Iterator[Callable[[bytes], object]]:
        if self.options.output_file is None:
            write = sys.stdout.buffer.write
            with writing_to("standard output"):
                is_plain = self._stdout_is_terminal and self.format is not Format.TABLE
                yield self._progress.before(harmless(write) if is_plain else write)
                sys.stdout.buffer.flush()
            return
        with whole_file(self.options.output_file) as write:
            yield write

    def confirm(
        self,
        plan: Document,
        question: str,
        *,
        yes: bool,
        more: Sequence[str] = (),
        rows: Sequence[str] = (),
    ) -> bool:
        """Whether to go on: by --yes, or by the answer on a terminal, No by default.

        The result has the fields of the plan, perhaps `more`, and perhaps `rows`: what cannot
        be shown is told before anything is changed.
        """
        self.check_report((*plan.values, *more), rows, beside=None)
        if yes:
            return True
        self.need_terminal()
        from deltacli.render.table import People, show_document

        people = People(
            sys.stderr, zone=self.zone, now_ms=self.now_ms, color=not self.options.no_color
        )
        asked = {name: one for name, one in plan.values.items() if name != "dryRun"}
        show_document(replace(plan, values=asked), people)
        self._progress.clear()
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        line = ""
        try:
            line = sys.stdin.readline()
        finally:
            if not line.endswith("\n"):
                sys.stderr.write("\n")
        answer = line.strip().lower() in ("y", "yes")
        if not answer:
            self.note("nothing was changed")
        return answer

    def need_terminal(self) -> None:
        """Raise UsageError where nobody can be asked."""
        if not is_terminal(sys.stdin) or not is_terminal(sys.stderr):
            raise UsageError(
                "this changes the table, and nobody can be asked here",
                hint="--yes goes on without a question, --dry-run only shows the plan",
            )

    @property
    def progress(self) -> Progress:
        return self._progress

    def write_beside(self, path: str, text: str) -> None:
        """Write a file of its own, whole or not at all."""
        with whole_file(path) as write:
            write(text.encode("utf-8", "backslashreplace"))

    # -- talk ----------------------------------------------------------------------------

    def warn(self, messages: Sequence[str]) -> None:
        for message in dict.fromkeys(messages):
            self._say(f"warning: {message}")

    def fail(self, error: DeltaCliError) -> None:
        """Report an error while the command goes on with something else."""
        self._progress.clear()
        as_json = self.options.output in (Format.JSON, Format.JSONL)
        with contextlib.suppress(OSError):
            print(failure_text(error, as_json=as_json), file=sys.stderr)

    def note(self, message: str) -> None:
        self._say(f"note: {message}")

    def explain(self, message: str) -> None:
        if self.options.verbose:
            self._say(message)

    def _say(self, message: str) -> None:
        if not self.options.quiet:
            self._progress.clear()
            with contextlib.suppress(OSError):
                print(escaped(without_secrets(message)), file=sys.stderr)

    def _shows_progress(self) -> bool:
        options = self.options
        return not options.quiet and not options.no_progress and is_terminal(sys.stderr)


class _Loader:
    """`load_snapshot` with all that stays the same during one command."""

    def __init__(
        self,
        store: LogStore,
        engine: Callable[[], Engine],
        allow_catalog_managed: bool,
        on_read: Progress,
    ):
        self.store = store
        self._engine = engine
        self._allow = allow_catalog_managed
        self._on_read = on_read

    def __call__(
        self, version: int | None = None, *, listing: LogListing | None = None
    ) -> Snapshot:
        from deltacli.delta.snapshot import load_snapshot

        return load_snapshot(
            self.store,
            self._engine,
            version=version,
            listing=listing,
            allow_catalog_managed=self._allow,
            on_read=self._on_read,
        )


def one_version(table: str, own: str | None, at: str | None) -> str | None:
    """The version in a table's name, or that of --at. Raises UsageError for both."""
    if at is not None and own is not None:
        raise UsageError(f"both {table!r} and --at name a version", hint="use one of them")
    return at if at is not None else own


def _exists(store: LogStore) -> bool:
    try:
        next(store.list_from(""), None)
    except DeltaCliError:
        return False
    return True


def _version_or_time(text: str) -> str:
    """`v123` as it is; `yyyyMMddHHmmssSSS` as an ISO time."""
    if text.startswith("v"):
        return text
    return (
        f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[8:10]}:{text[10:12]}:{text[12:14]}.{text[14:]}"
    )
