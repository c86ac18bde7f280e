"""`doctor`: what this installation has, as one document."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from typing import Any

from deltacli import __version__
from deltacli.errors import StorageError
from deltacli.operations.records import Document

_PACKAGES = ("typer", "rich", "pyarrow", "fsspec", "orjson")
_DRIVERS = {
    "s3": ("s3fs", "s3"),
    "gs": ("gcsfs", "gcs"),
    "abfss": ("adlfs", "azure"),
    "hdfs": ("hdfs-native", "hdfs"),
}
# Where the drivers look for credentials. Only whether they are set is told.
_CREDENTIALS = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ENDPOINT_URL"),
    "gs": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "abfss": (
        "AZURE_STORAGE_ACCOUNT_NAME",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_CONNECTION_STRING",
        "AZURE_CLIENT_ID",
    ),
    "hdfs": ("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME"),
}


def examine() -> Document:
    values: dict[str, Any] = {
        "deltacli": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": {name: _version(name) for name in _PACKAGES},
        "engines": {
            "local": f"pyarrow {_version('pyarrow')}, {os.cpu_count()} cores",
            "spark": _spark(),
        },
        "server": _server(),
        "paimon": _paimon(),
        "storage": {"file": "built in", **{scheme: _driver(scheme) for scheme in _DRIVERS}},
        "credentials": {
            scheme: [name for name in names if os.environ.get(name)]
            for scheme, names in _CREDENTIALS.items()
        },
        "environment": sorted(name for name in os.environ if name.startswith("DELTACLI_")),
    }
    return Document(values, "doctor")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _spark() -> str:
    """Which Spark and Java row jobs would take."""
    version = _version("pyspark")
    if version == "not installed":
        return "not installed: pip install 'deltacli[spark]'"
    from deltacli.spark.java import find_java

    try:
        java = find_java()
    except StorageError as error:
        return f"pyspark {version}; {error.message}"
    return f"pyspark {version}, Java {java.version} ({java.origin})"


def _server() -> str:
    """What `share serve` runs on."""
    version = _version("uvicorn")
    if "not installed" in (version, _version("pyyaml")):
        return "not installed: pip install 'deltacli[server]'"
    return f"uvicorn {version}"


def _paimon() -> str:
    """What reads the manifests of Paimon tables."""
    version = _version("fastavro")
    if version == "not installed":
        return "not installed: pip install 'deltacli[paimon]'"
    return f"fastavro {version}"


def _driver(scheme: str) -> str:
    package, extra = _DRIVERS[scheme]
    version = _version(package)
    if version == "not installed":
        return f"not installed: pip install 'deltacli[{extra}]'"
    return f"{package} {version}"
