"""The matrix: its cells, what is not done again, and what a lost process costs."""

from __future__ import annotations

import json
import re
import shutil
import threading
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import ffn_export as fx
from ffn_export.bundle.manifest import read_manifest
from ffn_export.cli.main import run
from ffn_export.core import processor
from ffn_export.core.matrix_cell import Cell, exit_status
from ffn_export.model_matrix.drive import drive
from ffn_export.model_matrix.entries import read_matrix
from ffn_export.model_matrix.plan import Group, all_steps
from ffn_export.model_matrix.store import FILE
from tests.bundle.processors import OTHER
from tests.model_matrix.here import Here

ZOO = """
fast = true
targets = ["portable", "ort-cpu"]
runtimes = ["ort-cpu", "reference"]
[[model]]
spec = "d2l-ffn"
"""
MODULE = """
import os, signal, torch
def layer(): return torch.nn.Linear(4, 4)
def crash(): os.kill(os.getpid(), signal.SIGSEGV)
"""


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / FILE).read_text().splitlines()]


def tiny(**options: Any) -> dict[str, Any]:
    return {"fast": True, "runtimes": ["ort-cpu", "reference"], "model": [{"spec": "d2l-ffn", **options}]}


@pytest.mark.integration
def test_the_smallest_file_in_processes_of_which_one_crashes(
    in_processes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MODULE)
    inputs = '\nfast = true\ninputs = ["x:float32[batch,4]"]\n'
    crash = f'[[model]]\nspec = "mine:crash"\ntargets = ["ort-cpu"]{inputs}'  # one: each takes another process
    Path("zoo.toml").write_text(f'{ZOO}{crash}[[model]]\nspec = "mine:layer"{inputs}')
    assert run(["matrix", "zoo.toml", "-o", "out", "--jobs", "1"]) == 1
    cells = {(cell["model"], cell["target"], cell["runtime"]): cell["verdict"] for cell in lines(Path("out"))}
    assert cells == {
        (model, target, runtime): "failed" if model == "crash" else "passed"
        for model in ("d2l-ffn", "crash", "layer")
        for target in ("portable", "ort-cpu")
        for runtime in ("ort-cpu", "reference")
        if (model, target) != ("crash", "portable")
    }
    said = capsys.readouterr().err.splitlines()
    assert max(map(len, said)) <= 100
    assert [line for line in said if "d2l-ffn portable float32 reference" in line]
    assert "10 cells in" in said[-1]
    assert fx.load("out/d2l-ffn-portable", threads=1).manifest.target == "portable"
    root = ET.parse("out/junit.xml").getroot()
    assert (root.attrib["tests"], root.attrib["failures"]) == ("10", "2")
    assert Path("out/index.html").read_text().count("<tr data-model") == 10


def test_only_what_is_missing_or_changed_is_done(here: type[Here], tmp_path: Path) -> None:
    assert fx.matrix(tiny(), tmp_path).passed
    assert here.done == ["d2l-ffn-ort-cpu"]
    assert fx.matrix(tiny(), tmp_path).passed
    assert len(here.done) == 1
    kept, cut = (tmp_path / FILE).read_text().splitlines()
    (tmp_path / FILE).write_text(f"{kept}\n{cut[:40]}")  # killed amid a line
    bundle = (tmp_path / "d2l-ffn-ort-cpu" / "manifest.json").stat().st_mtime_ns
    assert len(fx.matrix(tiny(), tmp_path).cells) == 2
    assert len(here.done) == 2
    assert lines(tmp_path)[0] == json.loads(kept), "what is done is kept as it was"
    assert (tmp_path / "d2l-ffn-ort-cpu" / "manifest.json").stat().st_mtime_ns == bundle, "it was only judged again"
    assert fx.matrix(tiny(seed=3), tmp_path).passed
    assert len(here.done) == 3
    (tmp_path / "d2l-ffn-ort-cpu" / "manifest.json").unlink()
    (tmp_path / "d2l-ffn-ort-cpu" / "manifest.json").write_text("{}")
    assert fx.matrix(tiny(seed=3), tmp_path).cells[0].verdict == "error"  # what is in the way is no bundle


def test_a_lost_process_costs_the_cell_that_it_died_of(here: type[Here], tmp_path: Path) -> None:
    zoo = {**tiny(name="killer"), "targets": ["portable", "ort-cpu"]}
    result = fx.matrix(zoo, tmp_path)
    assert {(cell.target, cell.runtime): cell.verdict for cell in result.cells} == {
        (target, runtime): "failed" if runtime == "reference" else "passed"
        for target in zoo["targets"]
        for runtime in ("ort-cpu", "reference")
    }
    assert [line["key"] for line in lines(tmp_path) if line["verdict"] == "failed"] == ["", ""], "tried again next time"


def test_each_action_on_sources_files_and_bundles(here: type[Here], tmp_path: Path) -> None:
    fx.save(fx.export("d2l-ffn"), tmp_path / "m.onnx")
    built = fx.build("d2l-ffn", directory=tmp_path, fast=True).directory
    file = {"spec": str(tmp_path / "m.onnx"), "against": "d2l-ffn"}
    brief = {"tokens": [1], "seconds": 0.001}
    models = [
        {**file},
        {**file, "name": "seen", "action": "verify", "runtimes": ["ort-cpu", "ort-cuda"]},
        {"spec": str(built), "action": "verify"},
        {"spec": "d2l-ffn", "name": "timed", "action": "bench", "tokens": [8]},
        {"spec": "d2l-ffn", "name": "tuned", "action": "tune", "tuning": brief, "fast": False},
        {"spec": "d2l-ffn", "name": "gated", "require_fusion": {"feed_forward": 9}},
        {"spec": "d2l-ffn", "name": "half", "dtypes": ["float16"]},
    ]
    result = fx.matrix({"fast": True, "runtimes": ["ort-cpu"], "model": models}, tmp_path / "out")
    cells = {(cell.model, cell.runtime): cell for cell in result.cells}
    verdicts = {cell.model: cell.verdict for (_, runtime), cell in cells.items() if runtime == "ort-cpu"}
    assert verdicts == {
        "m": "passed",
        "seen": "passed",
        "d2l-ffn": "passed",
        "timed": "passed",
        "tuned": "passed",
        "gated": "failed",
        "half": "passed",
    }
    assert cells["half", "ort-cpu"].dtype == "float16"
    assert cells["seen", "ort-cuda"].verdict in ("unavailable", "passed")
    assert "ms batch=1,seq=8" in cells["timed", "ort-cpu"].figures
    assert (tmp_path / "out" / "m-ort-cpu.onnx").is_file()
    assert (tmp_path / "out" / "tuned-ort-cpu" / "tuning.json").is_file()
    assert not (tmp_path / "out" / "gated-ort-cpu").exists()
    assert result.exit_status == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('targts = ["ort"]\n[[model]]\nspec = "d2l-ffn"', "unknown key 'targts'; did you mean 'targets'?"),
        ('targets = ["ort-cpuu"]\n[[model]]\nspec = "d2l-ffn"', "unknown target 'ort-cpuu'; did you mean 'ort-cpu'?"),
        ('runtimes = ["refrence"]\n[[model]]\nspec = "d2l-ffn"', "did you mean 'reference'?"),
        ('dtypes = ["fp16"]\n[[model]]\nspec = "d2l-ffn"', "did you mean 'float16'?"),
        ('targets = "ort"\n[[model]]\nspec = "d2l-ffn"', "model 1, d2l-ffn: Expected `array`, got `str`: `targets`"),
        ("model = []", "has no models"),
        ('[[model]]\nspec = "d2l-fnn"', "did you mean 'd2l-ffn'?"),
        ('[[model]]\nspec = "gone.onnx"', "gone.onnx cannot be read: No such file"),
        ('[[model]]\nspec = "hf:gone"', "no such directory: gone"),
        ('[[model]]\nspec = "d2l-ffn"\nname = "a"\n[[model]]\nspec = "bert-ffn"\nname = "a"', "are called 'a'"),
        ('[[model]]\nspec = "d2l-ffn"\naction = "buidl"', "Invalid enum value 'buidl'"),
        ('[[model]]\nname = "a"', "has no spec"),
        ("[[model]", "is no TOML"),
    ],
)
def test_a_wrong_file_is_one_line_before_any_work(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "zoo.toml").write_text(text)
    assert run(["matrix", str(tmp_path / "zoo.toml"), "-o", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("require_fusion = {feed_forward = -3}", "require_fusion= of feed_forward needs a number of 1 or more"),
        ("bench_budget = nan", "bench_budget of nan is no time: take a finite number"),
        ("bench_budget = -1", "bench_budget of -1 is no time"),
        ("opset = 3", "opset 3 is not written by torch's exporter here: use opset=18 to"),
        ("seed = -1", "seed must be a whole number from 0 to"),
        ("tokens = [0]", "tokens of 0 cannot be timed: take 1 or more"),
        ('forms = ["x"]', "'x' is no optional form of ort-cpu"),
        ('against = "d2l-fnn"', "no preset, file or bundle is named 'd2l-fnn'; did you mean 'd2l-ffn'?"),
        (
            'action = "tune"\ntargets = ["portable"]',
            "portable has one form of each site, so nothing to tune",
        ),
        ('targets = ["ort-native"]\nquantization = {}', "native kernels quantize by themselves"),
        (
            'action = "tune"\ntargets = ["ort-native"]\nprecision = "bf16"\nbudget = 0.1',
            "tuning chooses the precision",
        ),
        ("tuning = {tokens = []}", "tuning: tokens are a list of lengths"),
        ('tuning = {seconds = "1"}', "tuning: seconds of '1' are no time"),
        ("tuning = {budget = 0.0}", "tuning: an error budget of 0 is none"),
        ("tuning = {bugdet = 1}", "tuning: unknown key 'bugdet'; did you mean 'budget'?"),
        ("quantization = {bit = 4}", "quantization: unknown key 'bit'; did you mean 'bits'?"),
    ],
)
@pytest.mark.parametrize("is_common", [True, False])
def test_a_wrong_value_is_told_with_its_model_before_any_work(option: str, said: str, is_common: bool) -> None:
    model = '[[model]]\nspec = "d2l-ffn"\n'
    zoo = tomllib.loads(f"{option}\n{model}" if is_common else f"{model}{option}")
    with pytest.raises(fx.UsageError, match=re.escape(f"the matrix: model 1, d2l-ffn: {said}")):
        read_matrix(zoo)


def test_processes_end_before_the_threads_that_started_them() -> None:
    class Threaded(Here):
        def run(self, group: Group) -> Iterator[Sequence[Cell]]:
            self.thread = threading.current_thread()
            yield ()

        def rest(self) -> None:
            self.was_alive = self.thread.is_alive()

    engine = Threaded(Path(), 1, 1)
    drive([tuple(all_steps(read_matrix(tiny()), engine.threads))], engine, lambda _: None)
    assert engine.was_alive


def test_an_exported_program_in_a_folder_is_called_after_its_file(tmp_path: Path) -> None:
    for name in ("two.pt2", "one.onnx"):
        (tmp_path / name).touch()
    text = '[[model]]\nspec = "two.pt2"\n[[model]]\nspec = "one.onnx"\n[[model]]\nspec = "mine.models:make"\n'
    (tmp_path / "zoo.toml").write_text(text, encoding="utf-8-sig")  # as editors on Windows write it
    assert [entry.called for entry in read_matrix(tmp_path / "zoo.toml")] == ["two", "one", "make"]


def test_a_name_that_is_given_twice_counts_once() -> None:
    twice = {"dtypes": ["float16", "float16"], "targets": ["ort", "ort"], "runtimes": ["ort-cpu", "ort-cpu"]}
    (step,) = all_steps(read_matrix({"model": [{"spec": "d2l-ffn", **twice}]}), lambda *_: 1)
    assert step.runtimes == ("ort-cpu",)


def test_a_failed_gate_is_the_worst() -> None:
    def status(*verdicts: Any) -> int:
        return exit_status([Cell("m", "ort", "ort-cpu", verdict, "", "build") for verdict in verdicts])

    assert [status(), status("passed", "warned"), status("passed", "unavailable")] == [0, 0, 3]
    assert [status("unavailable", "error"), status("error", "failed", "unavailable")] == [2, 1]


@pytest.mark.slow
def test_bundles_of_several_kinds_of_processor_are_joined(
    here: type[Here], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = processor.kind()
    monkeypatch.setattr(processor, "kind", lambda: OTHER if here.done[-1].endswith("-b") else own)
    zoo = tiny(processors=["a", "b", "also-a"])
    result = fx.matrix(zoo, tmp_path)
    assert result.passed
    assert here.done[-1] == "d2l-ffn-ort-cpu"
    joined = {cell.runtime: cell for cell in result.cells if cell.action == "join"}
    assert set(joined) == {"ort-cpu", "reference"}
    assert {(cell.path, cell.processor, cell.verdict) for cell in joined.values()} == {
        ("d2l-ffn-ort-cpu", "", "passed")
    }
    assert joined["ort-cpu"].figures["graphs"] == 2, "also-a is of the same kind as a"
    bundle = tmp_path / "d2l-ffn-ort-cpu"
    assert [each.processor for each in read_manifest(bundle).graphs.values()] == [own, OTHER]
    count = len(here.done)
    told: list[str] = []
    assert fx.matrix(zoo, tmp_path, progress=told.append).passed
    assert (len(here.done), told) == (count, ["7 of 7 cells are done and unchanged"])
    shutil.rmtree(bundle)
    assert fx.matrix(zoo, tmp_path).passed
    assert here.done[count:] == ["d2l-ffn-ort-cpu"], "the joined one alone"
    shutil.rmtree(tmp_path / "d2l-ffn-ort-cpu-b")
    assert fx.matrix(zoo, tmp_path).passed
    assert here.done[count + 1 :] == ["d2l-ffn-ort-cpu-b", "d2l-ffn-ort-cpu"]
    assert len(lines(tmp_path)) == len(result.cells)


def test_one_kind_of_processor_is_not_joined(here: type[Here], tmp_path: Path) -> None:
    assert fx.matrix(tiny(processors=["a", "b"]), tmp_path).passed
    assert here.done == ["d2l-ffn-ort-cpu-a", "d2l-ffn-ort-cpu-b"]
    zoo = {"fast": True, "model": [{"spec": "d2l-ffn"}, {"spec": "d2l-ffn", "processors": ["a", "b"]}]}
    with pytest.raises(fx.UsageError, match="d2l-ffn-ort-cpu is the name of a model, and of one joined of several"):
        fx.matrix(zoo, tmp_path / "other")
