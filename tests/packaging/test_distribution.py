"""The wheel and the source distribution hold the whole package, and say what it is."""

from __future__ import annotations

import tomllib
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.packaging.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(name))


@pytest.mark.integration
def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    """Typing stubs, schemas, tables of costs and templates too."""
    files = (file for file in (ROOT / "ffn_export").rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    with ZipFile(wheel) as archive:
        assert {file.relative_to(ROOT).as_posix() for file in files} <= set(archive.namelist())
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


@pytest.mark.integration
def test_it_says_what_it_is(metadata: Message) -> None:
    assert metadata["License-Expression"] == PROJECT["license"]
    assert metadata["Summary"] == PROJECT["description"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    payload = metadata.get_payload()
    assert isinstance(payload, str)
    assert payload.startswith("# ffn_export")
    assert metadata.get_all("Classifier") == PROJECT["classifiers"]


def test_the_lowest_versions_are_those_that_are_tested() -> None:
    """``make test-oldest`` installs exactly the lower bounds."""
    declared = [dependency.partition(";")[0].partition("#")[0].strip() for dependency in PROJECT["dependencies"]]
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    pinned = [line for line in lines if not line.startswith("#")]
    assert [bound.replace(">=", "==") for bound in declared] == pinned
