"""Completions, man page and reference agree with the program, and the shells accept them."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deltacli.storage.local import LocalStore
from tests.builder import TableBuilder, add, domain, remove, txn
from tests.conftest import ROOT
from tests.terminal import start_on_terminal


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def test_the_generated_files_are_fresh() -> None:
    run(sys.executable, "docs/generate.py", "--check")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_command_prints_the_installed_script(shell: str) -> None:
    name = {"bash": "deltacli.bash", "zsh": "_deltacli", "fish": "deltacli.fish"}[shell]
    printed = run(sys.executable, "-m", "deltacli", "completion", shell)
    assert printed == (ROOT / "completions" / name).read_text()


def bash_words(*words: str) -> set[str]:
    script = (
        f"source completions/deltacli.bash; COMP_WORDS=({' '.join(words)}); "
        f"COMP_CWORD={len(words) - 1}; "
        "[ \"${words[-1]}\" = \"''\" ] && COMP_WORDS[-1]=''; _deltacli; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return set(run("bash", "-c", script).split())


def test_bash_completes() -> None:
    assert bash_words("deltacli", "sn") == {"snapshot"}
    assert {"--files", "--fields"} <= bash_words("deltacli", "snapshot", "--fi")
    assert bash_words("deltacli", "history", "-o", "j") == {"json", "jsonl"}
    assert bash_words("deltacli", "validate", "-o", "j") == {"json", "jsonl", "junit"}
    assert bash_words("deltacli", "completion", "z") == {"zsh"}
    assert "examples" in bash_words("deltacli", "snapshot", "exam")
    assert bash_words("deltacli", "sh") == {"share"}
    assert bash_words("deltacli", "share", "''") >= {"serve", "recipient", "head", "--help"}
    assert bash_words("deltacli", "share", "s") == {"serve", "shares", "schemas"}
    assert bash_words("deltacli", "share", "files", "--format", "d") == {"delta"}
    assert bash_words("deltacli", "share", "recipient", "r") == {"rotate", "revoke"}
    assert "--profile-out" in bash_words("deltacli", "share", "serve", "--pro")
    assert "README.md" in bash_words("deltacli", "paimon", "show", "READ")
    assert "README.md" not in bash_words("deltacli", "share", "tables", "READ")
    assert "--grace" in bash_words("deltacli", "share", "recipient", "rotate", "--gr")


def need(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    return path


def test_fish_completes() -> None:
    fish = need("fish")

    def words(line: str) -> set[str]:
        script = f'source completions/deltacli.fish; complete -C "{line}"'
        return {one.split("\t")[0] for one in run(fish, "-N", "-c", script).splitlines()}

    assert words("deltacli sn") == {"snapshot"}
    assert {"--files", "--fields"} <= words("deltacli snapshot --fi")
    assert words("deltacli history -o j") == {"json", "jsonl"}
    assert words("deltacli completion z") == {"zsh"}
    assert "README.md" in words("deltacli paimon show READ")
    assert words("deltacli share tables READ") == set()


def test_zsh_completes(tmp_path: Path) -> None:
    zsh = need("zsh")
    (tmp_path / ".zshrc").write_text(
        f"PS1='ready> '; fpath=({ROOT}/completions $fpath); autoload -U compinit; "
        f"compinit -u -d {tmp_path}/dump; bindkey '^I' complete-word\n"
    )
    homes = {"ZDOTDIR": str(tmp_path), "TERM": "dumb", "HOME": str(tmp_path)}
    process, terminal = start_on_terminal(zsh, "-i", cwd=ROOT, env={**os.environ, **homes})
    # Keys that are typed before the line editor runs are not keys to it.
    read_until(terminal, "ready> ")
    for typed, expected in (
        ("deltacli sn\t", "snapshot"),
        ("deltacli snapshot --tomb\t", "--tombstones"),
        ("deltacli history -o jsonl --cha\t", "--chart"),
        ("deltacli completion fi\t", "fish"),
        ("deltacli vacuum a b READ\t", "README.md"),
    ):
        os.write(terminal, b"\x15" + typed.encode())
        seen = read_until(terminal, expected)
        assert expected in seen, (typed, seen)
    os.write(terminal, b"\x15exit\n")
    os.close(terminal)
    process.wait(20)


def read_until(terminal: int, text: str) -> str:
    seen = ""
    end = time.monotonic() + 20
    while text not in seen and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 4096).decode(errors="replace")
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen)


def test_the_man_page_is_sound() -> None:
    man = shutil.which("man")
    if man is None:
        pytest.skip("man is not installed")
    done = subprocess.run(
        [man, "--warnings", "-l", str(ROOT / "docs/deltacli.1")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MANPAGER": "cat", "LC_ALL": "C.UTF-8"},
    )
    if "minimized" in done.stdout:
        pytest.skip("man is a stub here")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "--tombstones" in done.stdout


def test_the_wheel_installs_completions_and_man_page(tmp_path: Path) -> None:
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shared = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert all((ROOT / source).exists() for source in shared)
    assert any(target.startswith("share/man") for target in shared.values())


def test_every_field_is_explained() -> None:
    from deltacli.operations import (
        describe,
        drop_widening,
        files,
        history,
        narrow,
        paimon_describe,
        paimon_expire,
        share_check,
        share_client,
        share_download,
        share_recipients,
        validation,
        widen,
    )

    text = (ROOT / "docs/output.md").read_text()
    widening = (*widen.FIELDS, *narrow.STATUS_FIELDS, *narrow.FILE_FIELDS, *narrow.REWRITE_FIELDS)
    for name in (
        *describe.FIELDS,
        *files.FILE_FIELDS,
        *history.HISTORY_FIELDS,
        *widening,
        *drop_widening.FIELDS,
        *validation.FINDING_FIELDS,
        *validation.TABLE_FIELDS,
        *validation.RULE_FIELDS,
        *share_check.CHECK_FIELDS,
        *share_recipients.RECIPIENT_FIELDS,
        *share_client.SHARE_FIELDS,
        *share_client.TABLE_FIELDS,
        *share_client.METADATA_FIELDS,
        *share_client.FILE_FIELDS,
        *share_download.FIELDS,
        *paimon_describe.LIST_FIELDS,
        *paimon_describe.DIFF_FIELDS,
        *paimon_expire.EXPIRE_FIELDS,
        *paimon_expire.RESULT_FIELDS,
    ):
        assert f"`{name}`" in text, name
    for command in (("checkpoint",), ("vacuum",), ("vacuum", "--explain", "_delta_log/x")):
        planned = run(sys.executable, "-m", "deltacli", *command, "examples/orders", *DRY)
        for name in json.loads(planned):
            assert f"`{name}`" in text, name

    for command in (
        ("list", PAIMON), ("show", PAIMON), ("convert", PAIMON),
        ("convert", "examples/orders"), ("alter", PAIMON, "drop column points", "--dry-run"),
        ("expire", PAIMON, "--dry-run"),
    ):  # fmt: skip
        told = json.loads(run(sys.executable, "-m", "deltacli", "paimon", *command, *JSON))
        for name in told[0] if isinstance(told, list) else told:
            assert f"`{name}`" in text, name


def test_lines_on_a_pipe_have_the_columns_that_are_told(tmp_path: Path) -> None:
    from deltacli.operations import narrow, share_client, share_recipients

    text = (ROOT / "docs/output.md").read_text().partition("## Lines on a pipe")[2]
    told = {
        command: re.findall(r"`(\w+)`", columns.partition(";")[0])
        for command, columns in re.findall(r"^\| `([^`]+)` \| (.*) \|$", text, re.MULTILINE)
    }
    table = TableBuilder(LocalStore(str(tmp_path)))
    table.start(add("a"), txn("app", 7), domain("own"))
    table.commit(remove("a"), add("b"), add("b"))
    (tmp_path / "left").touch()
    os.utime(tmp_path / "left", (1e9, 1e9))
    for command in (
        "history", "snapshot --files", "snapshot --tombstones", "snapshot --partitions",
        "snapshot --transactions", "snapshot --domains", "snapshot --schema", "vacuum --dry-run",
        "validate", "validate --list-rules", "paimon list", "paimon diff",
    ):  # fmt: skip
        where: tuple[object, ...] = () if "--list-rules" in command else (tmp_path,)
        if command.startswith("paimon"):
            where = ("examples/customers", *(("1", "3") if command.endswith("diff") else ()))
        words = (*command.split(), *where, "-q")
        plain, chosen = (
            subprocess.run(
                [sys.executable, "-m", "deltacli", *map(str, words), *fields],
                capture_output=True, text=True, cwd=ROOT, check=False,
            ).stdout
            for fields in ((), ("--fields", ",".join(told[command])))
        )  # fmt: skip
        assert plain == chosen != "", command
    assert told["widen-type --status"] == list(narrow.FILE_FIELDS)
    assert told["share recipient list"] == list(share_recipients.RECIPIENT_FIELDS)
    assert told["share shares"] == list(share_client.SHARE_FIELDS)
    assert told["share schemas"] == list(share_client.SCHEMA_FIELDS)


JSON = ("-q", "-o", "json")
DRY = ("--dry-run", *JSON)
PAIMON = "examples/customers"
