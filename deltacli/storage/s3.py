"""A table on S3: what its own requests do better than fsspec's general ones."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from deltacli.errors import StorageError
from deltacli.storage.buckets import BucketStore, Page
from deltacli.storage.remote import millis

# Without these, a dead endpoint keeps a command waiting for minutes.
_TIMEOUTS = {"connect_timeout": 10, "read_timeout": 60, "retries": {"max_attempts": 3}}
# Older signatures in URLs are not accepted everywhere.
_S3_CONFIG = {**_TIMEOUTS, "signature_version": "s3v4"}

_KEYS_A_REQUEST = 1000
_DELETE_ATTEMPTS = 5
_THROTTLED = ("SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "Throttling")


class S3Store(BucketStore):
    """Lists from a key and by pages, deletes a thousand keys a request."""

    def _driver_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """s3fs wants some settings nested; a flat `--storage-option KEY=VALUE` reaches them all."""
        flat = dict(options)
        client = {name: flat.pop(name) for name in ("endpoint_url", "region_name") if name in flat}
        if client:
            flat["client_kwargs"] = client
        if isinstance(flat.get("anon"), str):
            flat["anon"] = flat["anon"].lower() in ("1", "true", "yes")
        flat.setdefault("config_kwargs", _S3_CONFIG)
        return super()._driver_options(flat)

    def _listing(self, prefix: str, start: str, *, is_flat: bool) -> Iterator[Page]:
        wish = {"Bucket": self._bucket, "Prefix": prefix}
        if not is_flat:
            wish["Delimiter"] = "/"
        if start:
            # StartAfter excludes its own key; the last character is put one lower instead.
            wish["StartAfter"] = start[:-1] + chr(ord(start[-1]) - 1) + "\U0010ffff"
        while True:
            page = self._run("", lambda: self._fs.call_s3("list_objects_v2", **wish))
            yield Page(
                [
                    (one["Key"], one["Size"], millis(one["LastModified"]))
                    for one in page.get("Contents", ())
                ],
                [one["Prefix"] for one in page.get("CommonPrefixes", ())],
            )
            if not page.get("IsTruncated"):
                return
            wish["ContinuationToken"] = page["NextContinuationToken"]

    def delete_all(self, paths: Sequence[str]) -> list[tuple[str, StorageError]]:
        """A thousand keys a request; keys that were throttled are asked for again."""
        prefix = self._prefix("")
        failures: list[tuple[str, StorageError]] = []
        for start in range(0, len(paths), _KEYS_A_REQUEST):
            waiting = list(paths[start : start + _KEYS_A_REQUEST])
            for attempt in range(_DELETE_ATTEMPTS):
                try:
                    refused = self._delete_keys([prefix + path for path in waiting])
                except StorageError as error:
                    failures += [(path, error) for path in waiting]
                    break
                again = []
                for key, code in refused.items():
                    path = key[len(prefix) :]
                    if code in _THROTTLED and attempt < _DELETE_ATTEMPTS - 1:
                        again.append(path)
                    else:
                        failures.append((path, _refusal(self._url(path), code)))
                if not again:
                    break
                waiting = again
                time.sleep(0.2 * 2**attempt)
        self._fs.invalidate_cache()
        return failures

    def _delete_keys(self, keys: Sequence[str]) -> dict[str, str]:
        """Delete keys with one request; those that stay, with the server's error code."""
        objects = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        answer = self._run(
            "", lambda: self._fs.call_s3("delete_objects", Bucket=self._bucket, Delete=objects)
        )
        return {one["Key"]: one.get("Code", "") for one in answer.get("Errors", ())}

    def keeps_deleted(self) -> bool:
        with contextlib.suppress(Exception):
            answer = self._fs.call_s3("get_bucket_versioning", Bucket=self._bucket)
            return bool(answer.get("Status") == "Enabled")
        return False


def _refusal(url: str, code: str) -> StorageError:
    if code == "AccessDenied":
        return StorageError(
            f"no permission to delete {url}", hint="check the rights of the credentials"
        )
    return StorageError(f"{url} was not deleted: {code}")
