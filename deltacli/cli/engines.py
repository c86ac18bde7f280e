"""Which engine a command works with: what the user wishes, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltacli.cli.options import Engine as Choice
from deltacli.errors import UsageError

if TYPE_CHECKING:
    from deltacli.delta.engine import Engine
    from deltacli.spark.progress import OnTasks
    from deltacli.spark.session import SparkSettings


@dataclass(frozen=True)
class EngineWish:
    """`--engine`, `--spark-master` and `--spark-conf`."""

    choice: Choice = Choice.AUTO
    master: str | None = None
    conf: tuple[str, ...] = ()

    @classmethod
    def of(cls, choice: Choice, master: str | None, conf: list[str] | None) -> EngineWish:
        """Who names a place for Spark wants Spark."""
        if master or conf:
            if choice is Choice.LOCAL:
                raise UsageError(
                    "--engine local takes no Spark", hint="leave the Spark options out"
                )
            choice = Choice.SPARK
        if choice is Choice.SPARK:
            from deltacli.spark.session import check_installed

            check_installed()
        return cls(choice, master, tuple(conf or ()))

    def settings(self, on_tasks: OnTasks, *, is_verbose: bool) -> SparkSettings:
        """Where and how a Spark of ours would run."""
        from deltacli.spark.session import SparkSettings, parse_conf

        return SparkSettings(
            self.master or "local[*]",
            parse_conf(self.conf),
            is_verbose=is_verbose,
            on_tasks=on_tasks,
        )

    def engine(self, settings: Callable[[], SparkSettings]) -> Engine:
        """For jobs on the log and on names of files; a session starts when one needs it."""
        if self.choice is not Choice.SPARK:
            from deltacli.local.engine import LocalEngine

            return LocalEngine()
        from deltacli.spark.engine import SparkEngine
        from deltacli.spark.jobs import Jobs
        from deltacli.spark.session import open_session

        def start() -> Jobs:
            chosen = settings()
            return Jobs(open_session(chosen), chosen.on_tasks)

        return SparkEngine(start)

    @property
    def reason(self) -> str:
        if self.choice is Choice.SPARK:
            return "the log is read by the spark engine: it was asked for"
        is_asked = self.choice is Choice.LOCAL
        why = "it was asked for" if is_asked else "on one machine Spark is not faster"
        return f"the log is read by the local engine (pyarrow): {why}"
