"""What must not stand together in one commit, or in one state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from deltacli.checking.model import ERROR, WARNING, Finding, rule
from deltacli.delta.replay import FileKey
from deltacli.validate.commits import Commit, Line
from deltacli.validate.live import Live
from deltacli.validate.replay import path_of


def _repeated(keyed: list[tuple[FileKey, Line]]) -> Iterator[tuple[str, Line]]:
    """Lines whose path an earlier line of the same kind has."""
    seen: set[str] = set()
    for key, line in keyed:
        path = path_of(key)
        if path in seen:
            yield path, line
        seen.add(path)


@rule("CFL001", ERROR, "A commit adds a file once", of=Commit)
def a_commit_adds_a_file_once(commit: Commit) -> Iterator[Finding]:
    """No two adds of one commit have the same path, whatever their deletion vectors.

    Why: which of them counts is open; rows are lost or doubled.
    Fix: rewrite the file in a commit of its own.
    """
    for path, line in _repeated(commit.adds):
        yield Finding("the commit adds the file twice", path=path, line=line.number)


@rule("CFL002", ERROR, "A commit does not add what it removes", of=Commit)
def a_commit_does_not_add_what_it_removes(commit: Commit) -> Iterator[Finding]:
    """No add and remove of one commit have the same path and deletion vector.

    Why: whether the file is live afterwards is open.
    Fix: rewrite the file in a commit of its own.
    """
    removed = {key for key, _ in commit.removes}
    for key, line in commit.adds:
        if key in removed:
            yield Finding(
                "the commit adds and removes the same file", path=path_of(key), line=line.number
            )


@rule("CFL003", ERROR, "A commit removes a file once", of=Commit)
def a_commit_removes_a_file_once(commit: Commit) -> Iterator[Finding]:
    """No two removes of one commit have the same path, whatever their deletion vectors.

    Why: a file has one deletion vector at a time; one of them removes what is not there.
    Fix: mend the writer.
    """
    for path, line in _repeated(commit.removes):
        yield Finding("the commit removes the file twice", path=path, line=line.number)


@rule("CFL004", ERROR, "A commit has one of its kind", of=Commit)
def a_commit_has_one_of_its_kind(commit: Commit) -> Iterator[Finding]:
    """A commit has at most one protocol, one metaData and one commitInfo.

    Why: the order of actions has no meaning; which one counts is open.
    Fix: restore the commit from a backup.
    """
    counts = Counter(line.key for line in commit.lines)
    for key in ("protocol", "metaData", "commitInfo"):
        if counts[key] > 1:
            yield Finding(f"the commit has {counts[key]} {key} actions")


def _same(commit: Commit, key: str, name: str) -> Iterator[Finding]:
    seen: set[object] = set()
    for line in commit.sound(key):
        one = line.body.get(name)
        if one in seen:
            yield Finding(f"the commit has two {key} actions of {one!r}", line=line.number)
        seen.add(one)


@rule("CFL005", ERROR, "A commit has one txn an application", of=Commit)
def a_commit_has_one_txn_an_application(commit: Commit) -> Iterator[Finding]:
    """No two txn actions of one commit have the same appId.

    Why: how far the application has written is open; it may write twice.
    Fix: mend the writer.
    """
    yield from _same(commit, "txn", "appId")


@rule("CFL006", ERROR, "A commit has one action a domain", of=Commit)
def a_commit_has_one_action_a_domain(commit: Commit) -> Iterator[Finding]:
    """No two domainMetadata actions of one commit have the same domain.

    Why: which configuration counts is open.
    Fix: mend the writer.
    """
    yield from _same(commit, "domainMetadata", "domain")


@rule("CFL007", ERROR, "A new vector replaces the old", of=Commit)
def a_new_vector_replaces_the_old(commit: Commit) -> Iterator[Finding]:
    """An add of a live file with another deletion vector comes with the remove of the old.

    Why: otherwise the file is live twice, and its rows count twice.
    Fix: remove the file with its old vector in another commit.
    """
    if commit.state is None:
        return
    removed = {key for key, _ in commit.removes}
    for key, line in commit.adds:
        path = path_of(key)
        for old in commit.state.keys_of(path):
            if old != key and old not in removed:
                yield Finding(
                    "the file is live with another deletion vector, which is not removed",
                    path=path,
                    line=line.number,
                )


@rule("CFL008", WARNING, "Only live files are removed", of=Commit)
def only_live_files_are_removed(commit: Commit) -> Iterator[Finding]:
    """A remove is of a file that is live, with the deletion vector that it has.

    Why: two writers removed it at the same time, or the wrong file was meant.
    Fix: none is needed, if the file was to go.
    """
    if commit.state is None:
        return
    for key, line in commit.removes:
        # Dropping the feature removes the files of vectors in this way.
        name = path_of(key).rpartition("/")[2]
        is_vector = name.startswith("deletion_vector_") and not line.body.get("dataChange")
        if commit.state.entry(key) is None and not is_vector:
            yield Finding("the removed file is not live", path=path_of(key), line=line.number)


@rule("CFL009", WARNING, "A commit changes data or does not", of=Commit)
def a_commit_changes_data_or_does_not(commit: Commit) -> Iterator[Finding]:
    """The adds and removes of a commit all have the same dataChange.

    Why: streams take a part of the commit, and what it did as a whole is lost.
    Fix: mend the writer.
    """
    flags = {line.body.get("dataChange") for _, line in (*commit.adds, *commit.removes)}
    if len(flags) > 1:
        yield Finding("some file actions change data, some do not")


@rule("CFL010", ERROR, "Append-only tables only grow", of=Commit)
def append_only_tables_only_grow(commit: Commit) -> Iterator[Finding]:
    """With delta.appendOnly no commit removes a file with dataChange true.

    Why: readers of such a table rely on every row staying.
    Fix: find out which writer does not know the property.
    """
    definitions = (commit.before, commit.definition)
    if not all(one is not None and one.is_on("delta.appendOnly") for one in definitions):
        return
    for key, line in commit.removes:
        if line.body.get("dataChange"):
            yield Finding(
                "data is removed though delta.appendOnly is true",
                path=path_of(key),
                line=line.number,
            )


@rule("CFL011", WARNING, "New rows are a data change", of=Commit)
def new_rows_are_a_data_change(commit: Commit) -> Iterator[Finding]:
    """A new file with dataChange false takes the place of files that the commit removes.

    Why: streams do not read it; if its rows are new, they never see them.
    Fix: mend the writer.
    """
    if commit.state is None or commit.removes:
        return
    for key, line in commit.adds:
        if line.body.get("dataChange") is False and not commit.state.keys_of(path_of(key)):
            yield Finding(
                "a new file has dataChange false and replaces none",
                path=path_of(key),
                line=line.number,
            )


@rule("CFL012", ERROR, "A live file has one deletion vector", of=Live)
def a_live_file_has_one_deletion_vector(live: Live) -> Iterator[Finding]:
    """No path is live with two deletion vectors in the newest version.

    Why: its rows count twice.
    Fix: remove the file with one of them in another commit.
    """
    twice = dict.fromkeys(live.twice_in_base)
    if live.state is not None:
        twice = dict.fromkeys(one for one in twice if one not in live.state.asked)
        twice |= dict.fromkeys(live.state.twice)
    for path in twice:
        yield Finding("the file is live with two deletion vectors", path=path)
