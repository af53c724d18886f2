"""``--reduce``: the smallest part that fails, written so that it fails again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import ffn_export as fx
from ffn_export.bundle import reduced
from ffn_export.cli.main import run
from ffn_export.core import onnx_file, vectors
from ffn_export.errors import UsageError
from ffn_export.fusion.pipeline import fuse
from ffn_export.parity.bisection.reduce import Reduced
from ffn_export.runtimes.base import Artifact
from ffn_export.runtimes.ort_cpu import OrtCpu
from tests.parity.bisection import planted
from tests.parity.bisection.conftest import Search, Subject


@pytest.fixture
def part(add_norm: Subject, search: Search) -> Callable[..., Reduced]:
    """The part that a fault leaves."""

    def make(plant: planted.Plant, name: str, target: str | None = None) -> Reduced:
        model = add_norm.model.clone() if target is None else fuse(add_norm.model, target)[0]
        assert plant(model, next(node for node in model.graph if str(node.name).startswith(name))) is not None
        found, taken_out = search(model, add_norm, reduce=True)
        assert taken_out is not None
        assert found.reduced_nodes == len(taken_out.model.graph)
        return taken_out

    return make


def test_a_node_alone_fails(part: Callable[..., Reduced], tmp_path: Path) -> None:
    found = part(planted.wrong_weight, "node_linear")
    assert [node.op_type for node in found.model.graph] == ["Add"]
    reduced.write(found, tmp_path / "part")
    reduced.write(found, tmp_path / "part")  # over an earlier one
    inputs, outputs = vectors.read(tmp_path / "part")
    actual = OrtCpu().load(Artifact(tmp_path / "part" / "model.onnx"), 1).run(inputs)
    assert actual.keys() == outputs.keys() == {"linear"}
    assert not np.allclose(actual["linear"], outputs["linear"])
    right = OrtCpu().load(Artifact(tmp_path / "part" / "reference.onnx"), 1).run(inputs)
    np.testing.assert_allclose(right["linear"], outputs["linear"], rtol=1e-5, atol=1e-6)


def test_a_fused_site_stays_whole(part: Callable[..., Reduced]) -> None:
    found = part(planted.wrong_weight, "node_layer_norm", "ort")
    assert [node.op_type for node in found.model.graph] == ["SkipLayerNormalization"]
    assert [node.op_type for node in found.reference.graph] == ["Add", "Add", "LayerNormalization"]
    assert [v.name for v in found.model.graph.inputs] == [v.name for v in found.reference.graph.inputs]


def test_a_missing_addend_is_an_input_of_both(part: Callable[..., Reduced]) -> None:
    found = part(planted.removed, "node_add")
    assert set(found.inputs) == {"x", "linear_1"}
    assert {v.name for v in found.model.graph.inputs} == {"x", "linear_1"}


def test_a_directory_of_somebody_else_is_left(part: Callable[..., Reduced], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        reduced.write(part(planted.wrong_weight, "node_linear"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] >= ["notes.txt"]


@pytest.mark.slow
@pytest.mark.traced
def test_by_the_command_line(add_norm: Subject, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    onnx_file.save(add_norm.model, tmp_path / "right.onnx")
    wrong = add_norm.model.clone()
    planted.inserted(wrong, next(node for node in wrong.graph if node.op_type == "Gelu"))
    onnx_file.save(wrong, tmp_path / "wrong.onnx")
    against = ["--against", str(tmp_path / "right.onnx")]
    pages = ["--html", str(tmp_path / "page.html"), "--markdown", str(tmp_path / "page.md")]
    assert run(["verify", str(tmp_path / "wrong.onnx"), *against, "--reduce", str(tmp_path / "part"), *pages]) == 1
    for page in (tmp_path / "page.html", tmp_path / "page.md"):
        assert "Where it went wrong" in page.read_text()
    told = capfd.readouterr().err
    assert "Neg 'extra_node_gelu' in down is the first that is wrong alone" in told
    assert "the smallest part that fails has 2 nodes" in told

    command = re.search(r"reduced: (ffn-export (?:.*\\\n)*.*)", told)
    assert command is not None
    assert run([*shlex.split(command[1].replace("\\\n", " "))[1:], "--quiet"]) == 1
    assert run(["verify", str(tmp_path / "right.onnx"), *against, "--bisect"]) == 0
    assert "nothing differs" in capfd.readouterr().err


@pytest.mark.slow
def test_the_part_of_a_model_in_memory_is_written_while_its_weights_are_there(
    add_norm: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_file, "_INLINE_BELOW_BYTES", 0)
    wrong = add_norm.model.clone()
    norm = next(node for node in wrong.graph if node.op_type == "LayerNormalization")
    norm.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1e-3)
    onnx_file.save(wrong, tmp_path / "wrong.onnx", external_above=0)
    given, inputs = onnx_file.load(tmp_path / "wrong.onnx"), {"x": "float32[batch,seq,16]"}
    fx.bisect(given, add_norm.source.module, inputs=inputs, reduce_to=tmp_path / "part")
    assert (tmp_path / "part" / "wrong.onnx").is_file() or list((tmp_path / "part").glob("*.onnx"))


@pytest.mark.slow
def test_from_python(add_norm: Subject) -> None:
    wrong = add_norm.model.clone()
    weight = next(node for node in wrong.graph if node.op_type == "LayerNormalization")
    weight.attributes["epsilon"] = ir.AttrFloat32("epsilon", 1e-3)
    inputs = {"x": "float32[batch,seq,16]"}
    found = fx.bisect(wrong, add_norm.source.module, inputs=inputs)
    assert found.part is not None
    assert found.part.node.scope == "norm"
    assert found.part.contrast == ("attribute epsilon of 'node_layer_norm' is 0.001, the reference has 1e-05",)
