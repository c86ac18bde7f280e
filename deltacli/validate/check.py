"""One table checked: its log, then its newest version as deep as was asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltacli.checking.model import ERROR, AnyRule, Level
from deltacli.checking.tally import Checked, FindingKey, Rules, Tally
from deltacli.delta.engine import Engine
from deltacli.delta.paths import LOG
from deltacli.delta.snapshot import Snapshot, load_snapshot
from deltacli.errors import CorruptLog, DeltaCliError, FileMissing, NoPlainFile, StorageError
from deltacli.storage import LogStore
from deltacli.validate.adds import LiveAdds
from deltacli.validate.commits import Body
from deltacli.validate.data_files import (
    ChangeFile,
    DataFile,
    Footers,
    Sample,
    TableColumns,
    live_adds,
)
from deltacli.validate.definition import Definition
from deltacli.validate.live import Live, live_batches
from deltacli.validate.log_files import NotLoaded
from deltacli.validate.log_run import LogRun, OnProgress
from deltacli.validate.rows import FileRows, RowReader, Vector
from deltacli.validate.stored import Stored

_ROW_TRACKING = "delta.enableRowTracking"
# Rules whose findings keep readers from loading a version.
_FATAL = ("LOG00", "JSN00", "CKP001", "CKP003", "CKP022", "ACT001", "ACT002", "ACT014", "PRT00",
          "MET001", "TYW00")  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What is to be checked, how deep, and how much of it is told."""

    rules: Sequence[AnyRule]
    level: Level = Level.LOG
    sample: Sample = field(default_factory=Sample)
    most: int | None = 20
    known: frozenset[FindingKey] = frozenset()
    tells_each: bool = False


@dataclass(frozen=True)
class Means:
    """What a run works with: an engine for files, Spark for rows, and the clock."""

    engine: Callable[[], Engine]
    spark: Callable[[], Any]
    now_ms: int
    options: Mapping[str, str] = field(default_factory=dict)
    on_progress: OnProgress | None = None

    def told(self, what: str) -> Callable[[int], None] | None:
        report = self.on_progress
        return (lambda done: report(what, done, 0)) if report else None


def check_table(store: LogStore, request: Request, means: Means) -> Checked:
    """Everything that the request asks of one table.

    Raises only where the storage fails before the log was read.
    """
    tally = Tally(request.most, request.known, request.tells_each)
    rules = Rules(request.rules, tally)
    run = LogRun(store, rules, means.now_ms, means.on_progress)
    try:
        run.run()
    finally:
        run.portions.stop()
    version = run.listing.latest if run.listing and run.listing.latest >= 0 else None
    notes: list[str] = []
    error: StorageError | None = None
    wants_newest = rules.want(Live, LiveAdds, NotLoaded, Stored, DataFile, FileRows, Vector)
    if version is not None and wants_newest:
        try:
            snapshot = _load(run, rules, means)
            if snapshot is not None:
                _check_newest(run, snapshot, rules, request, means)
            elif request.level > Level.LOG:
                notes.append("the newest version cannot be loaded: only its log was checked")
        except StorageError as failure:
            # What was found up to here is told all the same.
            error = failure
    return Checked(store.location, version, request.level, request.rules, tally, notes, error)


def _load(run: LogRun, rules: Rules, means: Means) -> Snapshot | None:
    try:
        return load_snapshot(
            run.store, means.engine, listing=run.listing, allow_catalog_managed=True
        )
    except StorageError as error:
        if not isinstance(error, FileMissing | NoPlainFile):
            raise
        failure: DeltaCliError = error
    except DeltaCliError as error:
        failure = error
    except Exception as error:
        # Such a log is broken in a way that nobody thought of.
        failure = CorruptLog(f"it cannot be read: {type(error).__name__}: {error}")
    if not _explains_failure(rules.tally):
        rules.apply(NotLoaded(failure, run.listing.latest if run.listing else None))
    return None


def _explains_failure(tally: Tally) -> bool:
    """Whether something was found for which a version cannot be loaded."""
    return any(
        one.rule.id.startswith(_FATAL) and one.rule.severity is ERROR for one in tally.found()
    )


def _check_newest(
    run: LogRun, snapshot: Snapshot, rules: Rules, request: Request, means: Means
) -> None:
    version = snapshot.version
    definition = run.definition
    if definition is None or definition.metadata is None:
        definition = Definition(
            version, LOG, snapshot.protocol, snapshot.metadata, snapshot.domains
        )
    state = run.state if run.state and run.state.version == version else None
    try:
        _check_files(
            run, Live(snapshot, definition, state, run.twice_in_base), rules, request, means
        )
    except CorruptLog as error:
        # What reading the log from its start has not shown, going through its files has.
        rules.apply(NotLoaded(error, version))


def _check_files(run: LogRun, live: Live, rules: Rules, request: Request, means: Means) -> None:
    snapshot, definition = live.snapshot, live.definition
    rules.apply(live)
    if rules.want(LiveAdds) and (
        definition.is_iceberg or definition.clustering or definition.is_on(_ROW_TRACKING)
    ):
        for some in live_batches(snapshot, definition, means.now_ms):
            rules.apply(some)
    stored = Stored(snapshot, definition, means.engine, means.now_ms, dict(means.options))
    # What is known to be broken is not told again by a deeper look.
    broken: set[str] = set()
    if rules.want(Stored):
        rules.apply(stored)
        broken.update(one.path for one in stored.live_problems[0])

    def adds() -> Iterator[Body]:
        chosen = live_adds(snapshot, request.sample)
        return (one for one in chosen if one["path"] not in broken) if broken else chosen

    footers = Footers(
        snapshot,
        means.engine,
        TableColumns(definition, frozenset(run.recorded)),
        means.options,
    )
    if rules.want(DataFile):
        unreadable = set()
        for one in footers.of(adds(), means.told("reading footers")):
            rules.apply(one)
            if one.footer.error is not None:
                unreadable.add(one.path)
        broken |= unreadable
    if rules.want(ChangeFile):
        for change in footers.of_changes(stored.change_data()):
            rules.apply(change)
    rows = RowReader(snapshot, definition, means.spark, means.options)
    if rules.want(Vector, FileRows):
        for vector in rows.vectors(adds()):
            rules.apply(vector)
            if not vector.is_sound:
                broken.add(vector.path)
    if rules.want(FileRows):
        for found in rows.of(adds(), means.told("reading rows")):
            rules.apply(found)
