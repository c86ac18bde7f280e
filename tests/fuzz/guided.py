"""Runs a target under a fuzzer that follows coverage: pip install atheris, then

    python -m tests.fuzz.guided TARGET [SECONDS] [CORPUS]

What it finds lies in crash-… files; each belongs into tests/test_found.py, mended.
"""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
import sys


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["deltacli"]):
        import deltacli

        # Commands import what they need when they run: that would not be followed.
        for module in pkgutil.walk_packages(deltacli.__path__, "deltacli."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)
        from tests.fuzz.targets import TARGETS
    name, seconds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "60"
    own = [sys.argv[0], f"-max_total_time={seconds}", "-max_len=200", "-timeout=20",
           "-rss_limit_mb=2048", *sys.argv[3:]]  # fmt: skip
    atheris.Setup(own, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
