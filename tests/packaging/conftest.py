"""The wheel and the source distribution, built once."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(kind: str, source: Path, to: Path) -> Path:
    """Call the build backend as pip does."""
    start = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(to)!r}))"
    done = subprocess.run([sys.executable, "-c", start], cwd=source, capture_output=True, text=True, check=True)
    return to / done.stdout.splitlines()[-1]


def environment(place: Path, *requirements: str) -> Path:
    """Return the interpreter of a new environment that holds packages; skip where they cannot be installed."""
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    python = place / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", *requirements]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(requirements)} cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return python


@pytest.fixture(scope="session")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of a copy of what it needs."""
    copy = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "ffn_export", copy / "ffn_export", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    return build("sdist", copy, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="session")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made from the source distribution alone."""
    unpacked = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    (source,) = unpacked.iterdir()
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))
