"""Names below a table's root: which file on storage a path of the log means (V-13, V-19).

Whatever could mean a file below the root does, so that a spelling nobody thought of keeps
a file instead of losing it.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from deltacli.delta.paths import decode_path, is_absolute
from deltacli.delta.vectors import vector_path
from deltacli.storage import LogStore, local_path

_IS_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss"}
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")


class Root:
    """The place of a table, for comparing the log's paths with a listing's."""

    def __init__(self, store: LogStore):
        self._is_local = store.file_path("") is not None
        place = local_path(store.location) if self._is_local else _below_authority(store.location)
        self._place = self._place_of(store.location)
        self._own = posixpath.normpath(place)
        self._roots = {self._own}
        if self._is_local:
            self._roots.add(os.path.realpath(place))

    def names(self, path: str) -> Iterator[str]:
        """Every name relative to the root that a path of the log may mean."""
        decoded = decode_path(path)
        if not is_absolute(decoded):
            name = posixpath.normpath(decoded)
            if name.startswith("../"):
                yield from self._below(f"{self._own}/{name}")
            else:
                yield name
            return
        if not _IS_URL.match(decoded) and not decoded.startswith("/"):
            # `a:b` may be a name as well as a URL.
            yield decoded
        for form in {decoded, path}:
            yield from self._below(_below_authority(form))

    def own_name(self, path: str) -> str | None:
        """The one name that a path of the log means, if it lies below exactly this root."""
        decoded = decode_path(path)
        # `d%3Ax/f` lies in a folder, `d:x/f` does not.
        if is_absolute(path) or decoded.startswith("/"):
            return self.inside(decoded)
        name = posixpath.normpath(decoded)
        return None if name.startswith("../") or name == ".." else name

    def vector_names(self, descriptor: Mapping[str, Any]) -> Iterator[str]:
        """The names of a deletion vector's file. Raises ValueError."""
        path = vector_path(descriptor)
        if path is None:
            return
        if descriptor.get("storageType") == "p":
            yield from self.names(path)
        else:
            yield posixpath.normpath(path)

    def own_vector_name(self, descriptor: Mapping[str, Any]) -> str | None:
        """The one name of a deletion vector's file below this root. Raises ValueError."""
        path = vector_path(descriptor)
        if path is None or descriptor.get("storageType") != "p":
            return path
        return self.own_name(path)

    def inside(self, url: str) -> str | None:
        """The name of a whole URL that lies below exactly this root, taken as it stands."""
        if self._place_of(url) != self._place:
            return None
        return next(self._below(_below_authority(url)), None)

    def _place_of(self, url: str) -> tuple[str, str]:
        """Scheme and authority, in one spelling."""
        match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?", url)
        if match is None:
            return ("file", "")
        scheme = match[1].lower()
        return _SAME_SCHEME.get(scheme, scheme), match[2] or ""

    def _below(self, absolute: str) -> Iterator[str]:
        whole = posixpath.normpath("/" + absolute.lstrip("/"))
        forms = {whole, _resolved(whole)} if self._is_local and "\0" not in whole else {whole}
        for root in self._roots:
            prefix = root.rstrip("/") + "/"
            for form in forms:
                if form.startswith(prefix):
                    yield form[len(prefix) :]


def _below_authority(url: str) -> str:
    """The path of a URL. Which bucket or host it names is left out on purpose: one place has
    many spellings (s3a, wasbs, a mount), and taking two places for one only keeps a file."""
    return "/" + _URL.sub("", url, count=1).lstrip("/")


def _resolved(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return posixpath.join(_real_folder(folder or "/"), name)


@lru_cache(maxsize=4096)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)
