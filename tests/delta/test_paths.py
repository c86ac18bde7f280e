from __future__ import annotations

import pytest

from deltacli.delta.paths import (
    Kind,
    canonical_path,
    decode_path,
    file_location,
    parse_log_name,
    sidecar_path,
)

V = "00000000000000000010"
U = "0e42c15b-17cc-4918-990d-2ff76e918e4d"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (f"{V}.json", Kind.COMMIT),
        (f"{V}.checkpoint.parquet", Kind.CLASSIC_CHECKPOINT),
        (f"{V}.checkpoint.0000000001.0000000002.parquet", Kind.MULTIPART_CHECKPOINT),
        (f"{V}.checkpoint.{U}.json", Kind.UUID_CHECKPOINT),
        (f"{V}.checkpoint.{U}.parquet", Kind.UUID_CHECKPOINT),
        (f"{V}.{V[:-2]}12.compacted.json", Kind.COMPACTED),
        (f"{V}.crc", Kind.CHECKSUM),
        ("_last_checkpoint", Kind.LAST_CHECKPOINT),
        ("_last_vacuum_info", Kind.LAST_VACUUM),
        ("_staged_commits", Kind.STAGED_COMMITS),
        ("_sidecars", Kind.SIDECARS),
        (f".{V}.crc.crc", Kind.TEMPORARY),
        (f".{V}.json.{U}.tmp", Kind.TEMPORARY),
        ("__tmp_path_dir", Kind.TEMPORARY),
        # Near misses take no part.
        ("10.json", Kind.FOREIGN),
        (f"0{V}.json", Kind.FOREIGN),
        (f"{V}.JSON", Kind.FOREIGN),
        ("\u0660" * 20 + ".json", Kind.FOREIGN),
        (f"{'9' * 20}.json", Kind.FOREIGN),
        (f"{V}.checkpoint.0000000003.0000000002.parquet", Kind.FOREIGN),
        (f"{V}.checkpoint.0000000000.0000000002.parquet", Kind.FOREIGN),
        (f"{V}.checkpoint.1.2.parquet", Kind.FOREIGN),
        (f"{V}.checkpoint.{U[:-1]}.json", Kind.FOREIGN),
        (f"{V}.{V}.compacted.json", Kind.FOREIGN),
        (f"{V}.json\n", Kind.FOREIGN),
        ("_trino_meta", Kind.FOREIGN),
    ],
)
def test_each_name_is_of_one_kind(name: str, kind: Kind) -> None:
    assert parse_log_name(name).kind is kind


def test_numbers_in_names() -> None:
    part = parse_log_name(f"{V}.checkpoint.0000000002.0000000003.parquet")
    assert (part.version, part.part, part.parts) == (10, 2, 3)
    compacted = parse_log_name(f"{V}.{V[:-2]}12.compacted.json")
    assert (compacted.version, compacted.end) == (10, 12)
    assert parse_log_name(f"{2**63 - 1:020}.json").version == 2**63 - 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a%20b", "a b"),
        ("/x/y", "file:/x/y"),
        ("file:///x/y", "file:/x/y"),
        ("/x/sp%20ace", "file:///x/sp ace"),
    ],
)
def test_spellings_of_one_file_are_equal(one: str, other: str) -> None:
    assert canonical_path(one) == canonical_path(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("a%2520b", "a%20b"), ("x/y", "/x/y"), ("s3://b/x", "/b/x"), ("A", "a"), ("%ff", "%fe")],
)
def test_different_files_stay_different(one: str, other: str) -> None:
    assert canonical_path(one) != canonical_path(other)


def test_paths_are_decoded_once() -> None:
    assert decode_path("a%2520b") == "a%20b"
    assert decode_path("100%") == "100%"


def test_locations() -> None:
    assert file_location("file:///t", "p=a%20b/f") == "file:///t/p=a b/f"
    assert file_location("file:///t", "/other/f") == "file:///other/f"
    assert file_location("file:///t", "file:/other/f") == "file:///other/f"
    assert file_location("s3://b/t", "s3://c/u/f%3D") == "s3://c/u/f="


@pytest.mark.parametrize("path", ["../x.parquet", "..%2Fx", "a/b", "", "..", "%2e%2e%2fx"])
def test_a_sidecar_cannot_leave_its_folder(path: str) -> None:
    with pytest.raises(ValueError, match="not a file name"):
        sidecar_path(path)


def test_a_sidecar_may_be_named_by_url() -> None:
    expected = "_delta_log/_sidecars/x y.parquet"
    assert sidecar_path("x%20y.parquet") == expected
    assert sidecar_path("s3://b/t/_delta_log/_sidecars/x%20y.parquet") == expected
