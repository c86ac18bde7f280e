"""What the README shows is what the program does."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from deltacli.errors import EXIT_CODES
from tests.conftest import ROOT, Result

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n\$ (.+)\n((?:.*\n)*?)```", README)


@pytest.mark.parametrize(("command", "output"), BLOCKS)
def test_each_command_prints_what_the_readme_shows(
    deltacli: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, command: str, output: str
) -> None:
    monkeypatch.chdir(ROOT)
    program, *arguments = shlex.split(command)
    assert program == "deltacli"
    result = deltacli(*arguments)
    assert (result.code, result.stdout) == (0, output)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 5


def test_the_exit_codes_are_those_of_the_program() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", README, re.MULTILINE)
    assert [(int(code), meaning) for code, meaning in rows] == list(EXIT_CODES)


def test_named_options_and_extras_exist() -> None:
    known = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    for option in set(re.findall(r"`(--[a-z-]+)", README)):
        assert option in known, option
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for extra in re.findall(r"'\.\[([a-z0-9]+)\]'", README):
        assert extra in project["optional-dependencies"]
