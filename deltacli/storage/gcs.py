"""A table on Google Cloud Storage."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from deltacli.storage.buckets import BucketStore, Page
from deltacli.storage.remote import millis

_FIELDS = "nextPageToken,prefixes,items(name,size,updated)"


class GcsStore(BucketStore):
    """Lists from a key and by pages."""

    _passing = frozenset()

    def __init__(self, url: str, options: Mapping[str, str]):
        # Otherwise the driver first asks by gRPC what kind of bucket it is, and waits for
        # minutes where that is not allowed.
        os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        super().__init__(url, options)

    def _listing(self, prefix: str, start: str, *, is_flat: bool) -> Iterator[Page]:
        wish: dict[str, Any] = {"prefix": prefix, "fields": _FIELDS}
        if not is_flat:
            wish["delimiter"] = "/"
        if start:
            wish["startOffset"] = start
        while True:
            page = self._run(
                "",
                lambda: self._fs.call("GET", "b/{}/o", self._bucket, json_out=True, **wish),
            )
            yield Page(
                [
                    (one["name"], int(one["size"]), millis(one.get("updated")))
                    for one in page.get("items", ())
                ],
                page.get("prefixes", []),
            )
            if not page.get("nextPageToken"):
                return
            wish["pageToken"] = page["nextPageToken"]
