"""Files that anybody may have made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ffn_export.core.plain_file import read_bytes, read_json
from ffn_export.errors import UsageError


def test_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_text('{"größe": [1, -1.5, null, true, "\\ud83d\\ude00"]}', encoding="utf-8")
    assert read_json(path) == {"größe": [1, -1.5, None, True, "😀"]}
    (tmp_path / "link").symlink_to(path)  # as its user named it
    assert read_bytes(tmp_path / "link", 10**6) == path.read_bytes()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b'{"a": 1, "a": 2}', "'a' is given twice"),
        (b'{"a": NaN}', "NaN is no number of JSON"),
        (b"[-Infinity]", "is no number of JSON"),
        (b"[1e999]", "1e999 is too large for a number"),
        (b"[1" + b"0" * 30 + b"]", "a whole number of 31 digits is too large"),
        (b"[1" + b"0" * 5000 + b"]", "is no JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'"\xff"', "is no JSON"),
        (b"\xef\xbb\xbf{}", "is no JSON"),
        (b'["\\ud800"]', "is no JSON"),
        (b"", "is no JSON"),
        (b"{} x", "is no JSON"),
    ],
)
def test_json_is_strict_and_told_in_one_line(text: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "f.json").write_bytes(text)
    with pytest.raises(UsageError, match=says) as refused:
        read_json(tmp_path / "f.json")
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_what_is_no_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    refused = {
        "pipe": "no regular file",
        "zero": "no regular file",
        ".": "no regular file",
        "none": "no such file",
        "a\0b": "null",
        "x" * 300: "too long",
        "circle": "symbolic",
    }
    for name, says in refused.items():
        with pytest.raises(UsageError, match=says):
            read_bytes(tmp_path / name, 100)


def test_a_file_that_is_larger_than_it_may_be(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(UsageError, match="more than the 100 that it may"):
        read_bytes(tmp_path / "sparse", 100)
