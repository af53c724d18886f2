"""What stands beside a bundle while it is built, and what becomes of it after a build that was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ffn_export.bundle import publish
from ffn_export.errors import UsageError


@pytest.fixture(scope="module")
def dead() -> int:
    """The number of a process that is gone."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def directory(path: Path, holds: str) -> Path:
    path.mkdir()
    (path / "manifest.json").write_text(holds)
    return path


@pytest.mark.parametrize("manifest", ['{"name": "My web app"}', "", "[]", '{"files": {}}', '{"schema_version": 2}'])
def test_a_folder_with_another_manifest_is_not_replaced(tmp_path: Path, manifest: str) -> None:
    """Web applications and browser extensions have a file of this name too."""
    other = directory(tmp_path / "app", manifest)
    with pytest.raises(UsageError, match="app is no bundle and is not replaced: remove it or choose another --name"):
        publish.check_destination(other)


def test_a_bundle_with_a_file_of_its_users_is_not_replaced(tmp_path: Path) -> None:
    bundle = directory(
        tmp_path / "enc", '{"schema_version": 1, "files": {"model.onnx": "", "vectors/0/input_0.pb": ""}}'
    )
    (bundle / "vectors" / "0").mkdir(parents=True)
    for name in ("model.onnx", "vectors/0/input_0.pb", ".DS_Store"):
        (bundle / name).touch()
    publish.check_destination(bundle)
    (bundle / "vectors" / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"vectors/notes\.txt is not the bundle's and would be lost"):
        publish.check_destination(bundle)


def test_what_killed_builds_left_is_cleared_and_nothing_else(tmp_path: Path, dead: int) -> None:
    destination = directory(tmp_path / "enc", "old")
    directory(tmp_path / f".building-enc-{dead}-a1", "dead")
    living = directory(tmp_path / f".building-enc-{os.getppid()}-a1", "living")
    other = directory(
        tmp_path / f".building-enc-512-{os.getppid()}-a1", "another bundle, whose name begins with this one's"
    )
    with publish.staging(destination) as stage:
        assert {each.name for each in tmp_path.iterdir()} == {
            destination.name, living.name, other.name, stage.directory.name,
        }  # fmt: skip
    assert (destination / "manifest.json").read_text() == "old"


def test_a_bundle_that_a_killed_build_had_moved_aside_is_put_back(tmp_path: Path, dead: int) -> None:
    destination = tmp_path / "enc"
    directory(tmp_path / f".building-enc-{dead}-a1.old", "old")
    directory(tmp_path / f".building-enc-{dead}-a1", "half of a new one")
    with publish.staging(destination):
        assert (destination / "manifest.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["enc"]


def test_a_move_that_fails_leaves_the_old_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    destination = directory(tmp_path / "enc", "old")
    rename = Path.rename

    def full(self: Path, target: Path) -> Path:
        if self.name.startswith(".building-") and not self.name.endswith(".old"):
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    with publish.staging(destination) as stage, pytest.raises(OSError, match="No space"):
        stage.publish()
    assert (destination / "manifest.json").read_text() == "old"
    assert os.listdir(tmp_path) == ["enc"]


_PUBLISH_OFTEN = """
import sys
from pathlib import Path
from ffn_export.bundle import publish

for turn in range(60):
    with publish.staging(Path(sys.argv[1])) as stage:
        (stage.directory / "manifest.json").write_text(sys.argv[2])
        stage.publish()
"""


def test_processes_that_publish_into_one_place_leave_the_bundle_of_one_of_them(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PUBLISH_OFTEN, str(tmp_path / "enc")]
    running = [subprocess.Popen([*command, who], stderr=subprocess.PIPE, text=True) for who in "abc"]
    assert [(process.communicate()[1], process.returncode) for process in running] == [("", 0)] * 3
    assert (tmp_path / "enc" / "manifest.json").read_text() in "abc"
    assert [each.name for each in tmp_path.iterdir()] == ["enc"]
