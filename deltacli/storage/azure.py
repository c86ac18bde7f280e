"""A table on Azure Blob Storage or Data Lake Storage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from deltacli.storage.buckets import BucketStore, Page
from deltacli.storage.remote import RemoteFile, millis

_ACCOUNT = ".dfs.core.windows.net"
_URL = re.compile(r"(abfss?|az)://")
# The driver's own pauses add up to a minute and a half for each request to a dead endpoint.
_PAUSES = {"initial_backoff": 0, "increment_base": 2, "random_jitter_range": 1}


class AzureStore(BucketStore):
    """Lists by pages."""

    _passing = frozenset((429,))

    def __init__(self, url: str, options: Mapping[str, str]):
        super().__init__(url, options)
        pipeline = getattr(self._fs.service_client, "_pipeline", None)
        for policy in getattr(pipeline, "_impl_policies", ()):
            if hasattr(policy, "initial_backoff"):
                vars(policy).update(_PAUSES)

    def _connected(self) -> tuple[Any, str]:
        from adlfs import AzureBlobFileSystem

        class Driver(AzureBlobFileSystem):  # type: ignore[misc]
            @classmethod
            def _strip_protocol(cls, path: Any) -> Any:
                """The path as it is: to the driver, `a?` would be `a`."""
                if isinstance(path, list):
                    return [cls._strip_protocol(one) for one in path]
                return super()._strip_protocol(path) if _URL.match(path) else path.lstrip("/")

            def split_path(self, path: str, *_: Any, **__: Any) -> tuple[str, str, None]:
                """Container and name, which may have what the driver takes for a version."""
                container, _, key = self._strip_protocol(path).partition("/")
                return container, key, None

        options = {**Driver._get_kwargs_from_urls(self._address)}
        options |= self._driver_options(self._options)
        place, _, key = self._address.partition("://")[2].partition("/")
        container, at, _ = place.partition("@")
        names = (key,) if not at and _ACCOUNT in place else (container, key)
        return Driver(**options), "/".join(names)

    def _listing(self, prefix: str, start: str, *, is_flat: bool) -> Iterator[Page]:
        from fsspec.asyn import sync

        client = self._fs.service_client.get_container_client(self._bucket)
        # Folders of a hierarchical namespace are told by their metadata.
        wish = {"name_starts_with": prefix, "include": ["metadata"]}
        found = client.list_blobs(**wish) if is_flat else client.walk_blobs(**wish)
        pages = found.by_page()

        async def read() -> list[Any] | None:
            try:
                return [one async for one in await anext(pages)]
            except StopAsyncIteration:
                return None

        while True:
            blobs = self._run("", lambda: sync(self._fs.loop, read))
            if blobs is None:
                return
            # What only has a name is a prefix.
            yield Page(
                [_file(one) for one in blobs if "etag" in one and not _is_folder(one)],
                [one["name"] for one in blobs if "etag" not in one],
            )


def _file(blob: Mapping[str, Any]) -> RemoteFile:
    return blob["name"], blob["size"], millis(blob["last_modified"])


def _is_folder(blob: Mapping[str, Any]) -> bool:
    metadata = {key.lower(): value for key, value in (blob["metadata"] or {}).items()}
    return metadata.get("hdi_isfolder") == "true"
