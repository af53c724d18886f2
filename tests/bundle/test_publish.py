"""What stands beside a bundle while it is built, and what becomes of it after a build that was killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ffn_export.bundle import publish, swap
from ffn_export.errors import UsageError

BUNDLE = '{"schema_version": 1, "files": {}}'


def directory(path: Path, holds: str) -> Path:
    path.mkdir()
    (path / "manifest.json").write_text(holds)
    return path


@pytest.mark.parametrize("manifest", ['{"name": "My web app"}', "", "[]", '{"files": {}}', '{"schema_version": 2}'])
def test_a_folder_with_another_manifest_is_not_replaced(tmp_path: Path, manifest: str) -> None:
    """Web applications and browser extensions have a file of this name too."""
    other = directory(tmp_path / "app", manifest)
    with pytest.raises(UsageError, match="app is no bundle and is not replaced: remove it or choose another name="):
        publish.check_destination(other)


def test_a_bundle_with_a_file_of_its_users_is_not_replaced(tmp_path: Path) -> None:
    bundle = directory(
        tmp_path / "enc", '{"schema_version": 1, "files": {"model.onnx": "", "vectors/0/input_0.pb": ""}}'
    )
    (bundle / "vectors" / "0").mkdir(parents=True)
    for name in ("model.onnx", "vectors/0/input_0.pb", ".DS_Store"):  # the last is of a file manager
        (bundle / name).touch()
    publish.check_destination(bundle)
    (bundle / "vectors" / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"vectors/notes\.txt is not the bundle's and would be lost"):
        publish.check_destination(bundle)


@pytest.mark.parametrize("name", [".env", ".git/config", "vectors/.notes"])
def test_a_hidden_file_of_its_users_is_not_lost(tmp_path: Path, name: str) -> None:
    bundle = directory(tmp_path / "enc", '{"schema_version": 1, "files": {}}')
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / name).write_text("mine")
    with pytest.raises(UsageError, match="is not the bundle's and would be lost"):
        publish.check_destination(bundle)


def test_a_link_of_its_users_is_not_lost(tmp_path: Path) -> None:
    bundle = directory(tmp_path / "enc", '{"schema_version": 1, "files": {}}')
    (bundle / "data").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="data is not the bundle's and would be lost"):
        publish.check_destination(bundle)


def test_a_file_that_came_during_the_build_is_not_lost(tmp_path: Path) -> None:
    bundle = directory(tmp_path / "enc", '{"schema_version": 1, "files": {}}')
    with publish.staging(bundle) as stage:
        (bundle / "notes.txt").write_text("mine")
        with pytest.raises(UsageError, match=r"notes\.txt is not the bundle's and would be lost"):
            stage.publish()
    assert (bundle / "notes.txt").read_text() == "mine"
    assert os.listdir(tmp_path) == ["enc"]


def test_what_killed_builds_left_is_cleared_and_nothing_else(tmp_path: Path) -> None:
    destination = directory(tmp_path / "enc", BUNDLE)
    directory(tmp_path / ".building-enc-a1", "dead")
    other = directory(tmp_path / ".building-enc-512-a1", "another bundle, whose name begins with this one's")
    with publish.staging(destination) as stage:
        assert {each.name for each in tmp_path.iterdir()} == {
            destination.name,
            other.name,
            stage.directory.parent.name,
        }
    assert (destination / "manifest.json").read_text() == BUNDLE


_HOLD = """
import sys
from pathlib import Path
from ffn_export.bundle import publish

with publish.staging(Path(sys.argv[1])) as stage:
    print(stage.directory, flush=True)
    sys.stdin.read()
"""


def test_a_stage_is_left_alone_as_long_as_its_process_lives_whatever_its_number(tmp_path: Path) -> None:
    """Of a process in another container the number is not known here: nothing but the lock tells."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path / "enc")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    held = Path(holder.stdout.readline().strip())
    with publish.staging(tmp_path / "enc"):
        assert held.is_dir()
    holder.kill()
    holder.communicate()
    assert held.is_dir()
    with publish.staging(tmp_path / "enc"):
        assert not held.exists()
    assert os.listdir(tmp_path) == []


def test_a_bundle_that_a_killed_build_had_moved_aside_is_put_back(tmp_path: Path) -> None:
    destination = tmp_path / "enc"
    leftover = tmp_path / ".building-enc-a1"
    leftover.mkdir()
    directory(leftover / "old", BUNDLE)
    directory(leftover / "new", "half of a new one")
    with publish.staging(destination):
        assert (destination / "manifest.json").read_text() == BUNDLE
    assert os.listdir(tmp_path) == ["enc"]


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_move_that_fails_leaves_the_old_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanges: bool
) -> None:
    destination = directory(tmp_path / "enc", BUNDLE)
    rename = Path.rename

    def full(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise OSError(28, "No space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", full)
    monkeypatch.setattr(swap, "_exchange", lambda: (lambda one, other: 28) if exchanges else None)
    with publish.staging(destination) as stage, pytest.raises(OSError, match="No space"):
        stage.publish()
    assert (destination / "manifest.json").read_text() == BUNDLE
    assert os.listdir(tmp_path) == ["enc"]


_KILLED_OFTEN = """
import os, random, signal, sys, time
from pathlib import Path
from ffn_export.bundle import publish, swap

destination, exchanges, rounds = Path(sys.argv[1]), sys.argv[2] == "True", int(sys.argv[3])
if not exchanges:
    swap._exchange = lambda: None
bundle = '{"schema_version": 1, "files": {"a": "", "b": ""}}'

def publish_once():
    with publish.staging(destination) as stage:
        for name in ("a", "b"):
            (stage.directory / name).touch()
        (stage.directory / "manifest.json").write_text(bundle)
        stage.publish()

publish_once()
random.seed(0)
for turn in range(rounds):
    child = os.fork()
    if child == 0:
        while True:
            publish_once()
    time.sleep(random.uniform(0, 0.004))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not exchanges:
        with publish.staging(destination):
            pass
    assert (destination / "manifest.json").read_text() == bundle, turn
    assert {"a", "b", "manifest.json"} == set(os.listdir(destination)), turn
with publish.staging(destination):
    pass
assert os.listdir(destination.parent) == [destination.name], os.listdir(destination.parent)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are killed in the midst by forking")
@pytest.mark.parametrize("exchanges", [True, False])
def test_a_process_that_is_killed_while_it_publishes_leaves_a_whole_bundle(tmp_path: Path, exchanges: bool) -> None:
    """Where two directories can be exchanged, at once; elsewhere, when the next process looks."""
    if exchanges and swap._exchange() is None:
        pytest.skip("this system exchanges no directories")
    command = [sys.executable, "-c", _KILLED_OFTEN, str(tmp_path / "enc"), str(exchanges), "150"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert (done.stderr, done.returncode) == ("", 0)


_KILLED_BETWEEN = """
import os, signal, sys
from pathlib import Path
from ffn_export.bundle import publish, swap

swap._exchange = lambda: None
rename = Path.rename

def killed_after_the_first(self, target):
    moved = rename(self, target)
    os.kill(os.getpid(), signal.SIGKILL)
    return moved

with publish.staging(Path(sys.argv[1])) as stage:
    (stage.directory / "manifest.json").write_text("new")
    Path.rename = killed_after_the_first
    stage.publish()
"""


def test_a_process_killed_between_two_renames_loses_nothing(tmp_path: Path) -> None:
    destination = directory(tmp_path / "enc", BUNDLE)
    assert subprocess.run([sys.executable, "-c", _KILLED_BETWEEN, str(destination)], check=False).returncode == -9
    assert not destination.exists()
    with publish.staging(destination):
        assert (destination / "manifest.json").read_text() == BUNDLE


_PUBLISH_OFTEN = """
import sys
from pathlib import Path
from ffn_export.bundle import publish, swap

if sys.argv[3] == "False":
    swap._exchange = lambda: None
for turn in range(60):
    with publish.staging(Path(sys.argv[1])) as stage:
        manifest = '{"schema_version": 1, "name": "%s", "files": {}}' % sys.argv[2]
        (stage.directory / "manifest.json").write_text(manifest)
        stage.publish()
"""


@pytest.mark.slow
@pytest.mark.parametrize("exchanges", [True, False])
def test_processes_that_publish_into_one_place_leave_the_bundle_of_one_of_them(tmp_path: Path, exchanges: bool) -> None:
    command = [sys.executable, "-c", _PUBLISH_OFTEN, str(tmp_path / "enc")]
    running = [subprocess.Popen([*command, who, str(exchanges)], stderr=subprocess.PIPE, text=True) for who in "abc"]
    assert [(process.communicate()[1], process.returncode) for process in running] == [("", 0)] * 3
    assert json.loads((tmp_path / "enc" / "manifest.json").read_text())["name"] in "abc"
    assert [each.name for each in tmp_path.iterdir()] == ["enc"]
