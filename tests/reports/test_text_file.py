"""A report is written whole or not at all, and to nothing but where it belongs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ffn_export.errors import UsageError
from ffn_export.reports.text_file import check_writable, write_text


def test_file_and_missing_directories_are_made(tmp_path: Path) -> None:
    write_text("größe\n", tmp_path / "new" / "r.json")
    assert (tmp_path / "new" / "r.json").read_bytes() == "größe\n".encode()
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["r.json"]


def test_dash_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    write_text("{}\n", "-")
    assert capsys.readouterr().out == "{}\n"


@pytest.mark.parametrize("name", ["file/r.json", "directory", "nul\0l"])
def test_unwritable_path_is_one_line_of_bad_usage(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    with pytest.raises(UsageError, match="cannot write") as error:
        write_text("", tmp_path / name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["file/r.json", "file/deeper/r.json", "directory", "nul\0l"])
def test_what_cannot_be_written_is_refused_before_any_work(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    with pytest.raises(UsageError, match="cannot write"):
        check_writable(tmp_path / name)


def test_to_check_makes_nothing(tmp_path: Path) -> None:
    for destination in ("-", os.devnull, tmp_path / "new" / "r.json"):
        check_writable(destination)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_write_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = tmp_path / "r.json"
    report.write_text("old")

    def full(self: Path, *args: object, **options: object) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(UsageError, match="No space left on device"):
        write_text("new", report)
    assert report.read_text() == "old"
    assert list(tmp_path.iterdir()) == [report]


def test_device_is_written_to_and_link_is_followed(tmp_path: Path) -> None:
    write_text("gone", os.devnull)
    assert not Path(os.devnull).is_file()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text("text", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"
