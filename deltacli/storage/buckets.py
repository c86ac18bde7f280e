"""A table in a bucket: keys that are listed by pages, from a key on, and folders only by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from deltacli.errors import FileMissing, UsageError
from deltacli.storage.remote import RemoteEntry, RemoteFile, RemoteStore


class Page(NamedTuple):
    """Some objects, and what longer keys have in common up to their next `/`."""

    objects: list[RemoteFile]
    prefixes: list[str]


class BucketStore(RemoteStore):
    """Listings by the storage's own requests; a subclass makes them."""

    def __init__(self, url: str, options: Mapping[str, str]):
        scheme, _, rest = url.partition("://")
        bucket = rest.partition("/")[0]
        if not bucket:
            raise UsageError(
                f"{scheme}:// names no bucket", hint=f"write it as {scheme}://bucket/folder"
            )
        user = bucket.rpartition("@")[0] or bucket
        if ":" in user and not user.startswith("arn:"):
            raise UsageError(
                f"a URL of {scheme}:// has no place for credentials",
                hint="put them into the environment, or pass --storage-option KEY=VALUE",
            )
        super().__init__(url, options)

    def _listing(self, prefix: str, start: str, *, is_flat: bool) -> Iterator[Page]:
        """The objects whose keys begin with `prefix`, by their whole keys.

        Keys lower than `start` may be left out. Unless it is flat, keys with a `/` behind the
        prefix come as the prefixes that they share.
        """
        raise NotImplementedError

    @property
    def _bucket(self) -> str:
        return self._root.partition("/")[0]

    def _key(self, path: str) -> str:
        return self._path(path).partition("/")[2]

    def _prefix(self, folder: str) -> str:
        """What the keys below a folder begin with."""
        key = self._key(folder)
        return f"{key}/" if key else ""

    def _listed(self, folder: str, start: str) -> list[RemoteEntry]:
        prefix = self._prefix(folder)
        found: list[RemoteEntry] = []
        is_there = bool(start)
        for page in self._listing(prefix, prefix + start if start else "", is_flat=False):
            is_there = is_there or bool(page.objects or page.prefixes)
            for key, size, modified_ms in page.objects:
                # A key with a slash at its end only marks a folder.
                if not key.endswith("/"):
                    found.append(RemoteEntry(_last(key), False, size, modified_ms))
            found += [RemoteEntry(one, True, 0, None) for one in _folders(page)]
        if not is_there:
            url = self._url(folder)
            raise FileMissing(f"{url} does not exist", location=url)
        return found

    def _top_pages(self, folder: str) -> Iterator[tuple[list[RemoteFile], list[str]]]:
        for page in self._listing(self._prefix(folder), "", is_flat=False):
            yield self._files(page), _folders(page)

    def _pages(self, folder: str) -> Iterator[list[RemoteFile]]:
        for page in self._listing(self._prefix(folder), "", is_flat=True):
            yield self._files(page)

    def _files(self, page: Page) -> list[RemoteFile]:
        skip = len(self._prefix(""))
        return [
            (key[skip:], size, modified_ms)
            for key, size, modified_ms in page.objects
            if not key.endswith("/")
        ]


def _folders(page: Page) -> list[str]:
    """The names of folders; in `a//b` there is one without a name, which nobody can list."""
    return [name for one in page.prefixes if (name := _last(one))]


def _last(key: str) -> str:
    return key.removesuffix("/").rpartition("/")[2]
