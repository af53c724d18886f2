"""Changed models and bundles through every command that reads them: none crashes it, runs code or takes it over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

import ffn_export as fx
from tests.fuzz import bundles
from tests.fuzz.judging import Outcome, Worker
from tests.fuzz.mutations import mutated
from tests.fuzz.seeds import SEEDS

# The same files in every usual run, 60 of them by day; `make nightly` sets both, for 20,000 that are new.
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
FILES = int(os.environ.get("FUZZ_FILES", "300"))
PARTS = 10
BY_DAY = 2  # of the parts
BUNDLES = 6  # one of so many files is a bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("sound")
    return fx.build("d2l-ffn", directory=directory, bench_budget=0, runtimes=["ort-cpu"]).directory


def outcomes(worker: Worker, bundle: Path, seed: int) -> Iterator[Outcome]:
    """Make the file of a seed, and run what reads it."""
    random = Random(seed)
    if seed % BUNDLES == 0:
        bundles.change(bundle, worker.directory / "bundle", random)
        yield worker.ask("load", "bundle")
        yield worker.ask(random.choice(("inspect", "verify")), "bundle")
        return
    (worker.directory / "model.onnx").write_bytes(mutated(random.choice(SEEDS)(), random))
    yield worker.ask("inspect", "model.onnx")
    yield worker.ask("fuse", "model.onnx", "-o", "fused.onnx", "--target", random.choice(("ort-cpu", "portable")))
    if random.random() < 0.3:
        yield worker.ask("verify", "model.onnx", "--against", "model.onnx", "--threads", "1")


def files_beside(directory: Path) -> None:
    """Put there what locations of external data may name."""
    (directory / "weights.bin").write_bytes(b"\x00" * 256)
    if not (directory / "fifo").exists():
        os.mkfifo(directory / "fifo")
        (directory / "link").symlink_to("../secret.bin")
        (directory / "loop").symlink_to("loop")


@pytest.mark.slow
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.exhaustive] * (part >= BY_DAY)) for part in range(PARTS)]
)
def test_changed_files_harm_nobody(worker: Worker, bundle: Path, part: int) -> None:
    files_beside(worker.directory)
    harmful = {}
    for seed in range(FIRST + part, FIRST + FILES, PARTS):
        for outcome in outcomes(worker, bundle, seed):
            if outcome.faults():
                harmful[seed, outcome.arguments] = outcome.faults(), outcome.output[-500:]
    assert harmful == {}


# Seeds of files that once failed; their kind of fault is mended, and stays so.
KEPT: tuple[int, ...] = (126, 144, 700097, 700462, 800146, 900103, 901956, 910314, 930519)


@pytest.mark.slow
@pytest.mark.parametrize("seed", KEPT)
def test_files_that_once_failed(worker: Worker, bundle: Path, seed: int) -> None:
    files_beside(worker.directory)
    assert [outcome.faults() for outcome in outcomes(worker, bundle, seed) if outcome.faults()] == []
