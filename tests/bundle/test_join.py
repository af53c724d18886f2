"""One bundle with a graph for each kind of processor, and the weights once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import ffn_export as fx
from ffn_export.bundle import join
from ffn_export.bundle.manifest import read_manifest
from ffn_export.cli.main import run
from ffn_export.core import processor
from ffn_export.core.processor import Kind
from ffn_export.errors import GateError, IntegrityError, UsageError
from ffn_export.fusion.forms.by_rows.row_chunks import ROW_CHUNKS
from tests.bundle.processors import OTHER, THIRD, on_another_processor
from tests.bundle.test_hostile_bundles import rehash

pytestmark = [pytest.mark.slow, pytest.mark.traced]  # bundles are built

INPUTS = {"x": "float32[batch,seq,64]"}
X = {"x": np.ones((2, 3, 64), np.float32)}
VARIANT = f"model-{OTHER.label}.onnx"


def module(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 1000), nn.GELU(), nn.Linear(1000, 64)).eval()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``here`` was built on this processor, ``there`` on another, in chunks of rows."""
    directory = tmp_path_factory.mktemp("made")
    fx.build(module(), INPUTS, name="here", directory=directory, fast=True, forms=frozenset())
    fx.build(module(), INPUTS, name="t", directory=directory, fast=True, forms=frozenset({ROW_CHUNKS.name}))
    on_another_processor(directory / "t", directory / "there")
    fx.join([directory / "here", directory / "there"], directory / "joined")
    return directory


@pytest.fixture
def joined(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "joined", tmp_path / "joined"))


def on(monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    monkeypatch.setattr(processor, "kind", lambda: kind)


def test_it_has_a_graph_for_each_and_the_weights_once(made: Path, joined: Path) -> None:
    graphs = read_manifest(joined).graphs
    assert list(graphs) == ["model.onnx", VARIANT]
    assert [each.processor for each in graphs.values()] == [processor.kind(), OTHER]
    assert max((joined / file).stat().st_size for file in graphs) < 20_000, "a graph without weights"
    weights = (joined / "model.onnx.data").stat().st_size
    assert weights < 1.1 * graphs["model.onnx"].weights_bytes
    assert fx.verify(joined, module(), inputs=INPUTS, fast=True).passed


def test_it_keeps_what_the_bundles_had(made: Path, joined: Path) -> None:
    for name in ("parity.json", "fusion.json", "report.html", "test_data_set_0/input_0.pb"):
        assert (joined / name).read_bytes() == (made / "here" / name).read_bytes()
    for name in ("parity.json", "fusion.json", "report.html"):
        assert (joined / OTHER.label / name).read_bytes() == (made / "there" / name).read_bytes()
    present = {path.relative_to(joined).as_posix() for path in joined.rglob("*") if path.is_file()}
    assert set(read_manifest(joined).files) == present - {"manifest.json"}


def test_each_machine_takes_its_own(made: Path, joined: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (expected,) = fx.load(made / "here").run(X).values()
    nodes = {}
    for kind, file, why in (
        (processor.kind(), "model.onnx", f"it was built for this kind of processor: {processor.kind()}"),
        (OTHER, VARIANT, "it was built for this kind of processor: avx2, GenuineIntel family 6"),
        (THIRD, "model.onnx", "the default, as the bundle has no graph for this kind of processor: neon"),
    ):
        on(monkeypatch, kind)
        session = fx.load(joined)
        assert (session.info["graph"], session.info["why"]) == (file, why)
        (output,) = session.run(X).values()
        np.testing.assert_allclose(output, expected, atol=1e-5)
        nodes[file] = sum(session.info["nodes"].values())
        assert session.manifest.fusion == read_manifest(made / ("there" if file == VARIANT else "here")).fusion
        assert fx.verify(joined).model.endswith(file)
    assert nodes["model.onnx"] != nodes[VARIANT], "in chunks of rows"
    assert fx.load(made / "here").info["why"] == "the bundle has one graph"


def test_one_that_is_joined_joins_again_and_in_its_place(made: Path, joined: Path) -> None:
    third = on_another_processor(made / "here", joined.parent / "third", THIRD)
    assert list(fx.join([joined, third], joined, fast=True)) == ["model.onnx", VARIANT, "model-neon.onnx"]
    assert (joined / OTHER.label / "parity.json").read_bytes() == (made / "there" / "parity.json").read_bytes()
    assert (joined / "model-neon.onnx").read_bytes() == (joined / "model.onnx").read_bytes()


def test_from_the_shell(made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(made / "here"), str(made / "there"), "-o", str(tmp_path / "c")]
    assert run(["join", *words, "--fast", "--runtime", "ort-cpu"]) == 0
    assert VARIANT in capsys.readouterr().err
    assert run(["inspect", str(tmp_path / "c")]) == run(["diff", str(tmp_path / "c"), words[0]]) == 0
    assert run(["verify", str(tmp_path / "c"), "--fast", "--html", str(tmp_path / "page.html")]) == 0
    assert run(["tune", str(tmp_path / "c"), "--tokens", "1"]) == 2
    assert "has a graph for each of 2 kinds of processor: tune the bundles" in capsys.readouterr().err


def refusal(made: Path, tmp_path: Path, *bundles: Path) -> str:
    with pytest.raises(UsageError) as caught:
        fx.join([made / "here", *bundles], tmp_path / "joined", fast=True)
    assert not (tmp_path / "joined").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_not_the_same_model_is_refused(made: Path, tmp_path: Path) -> None:
    wide = {"x": "float32[batch,64]"}
    for name, change, said in (
        ("weights", {"module": module(1)}, "its weights differ, as PyTorch's outputs for the test vectors show"),
        ("inputs", {"inputs": wide}, "its inputs differ"),
        ("target", {"target": "ort"}, "its target is ort"),
        ("dtype", {"dtype": "mixed", "keep_io": True}, "dtype of its source is mixed, not float32"),
    ):
        options: dict[str, Any] = {"module": module(), "inputs": INPUTS, **change}
        fx.build(name=name, directory=tmp_path, fast=True, **options)
        other = on_another_processor(tmp_path / name, tmp_path / f"{name}-there")
        assert refusal(made, tmp_path, other) == f"{other} is not of the same model as {made / 'here'}: {said}"
    other = on_another_processor(made / "here", tmp_path / "second", processor.kind())
    where = f"{made / 'here'} and {other} are for one kind of processor, {processor.kind()}: leave one out"
    assert refusal(made, tmp_path, other) == where
    assert refusal(made, tmp_path) == "there is nothing to join: name two bundles or more"
    assert refusal(made, tmp_path, tmp_path / "none") == f"no such bundle: {tmp_path / 'none'}"


def test_a_graph_that_computes_something_else_is_not_joined(made: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(made / "there", tmp_path / "other"))
    model = onnx.load(other / "model.onnx")
    weight = max(model.graph.initializer, key=lambda tensor: len(tensor.raw_data))
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) * np.float32(1.01), weight.name))
    onnx.save(model, other / "model.onnx")
    rehash(other)
    with pytest.raises(GateError, match=r"other/model\.onnx fails its verification here: "):
        fx.join([made / "here", other], tmp_path / "joined")
    assert not (tmp_path / "joined").exists()


def entry(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def changed(directory: Path) -> None:
        manifest = json.loads((directory / "manifest.json").read_text())
        change(manifest)
        (directory / "manifest.json").write_text(json.dumps(manifest))

    return changed


def renamed(name: str) -> Callable[[Path], None]:
    return entry(lambda manifest: manifest["variants"].update({name: manifest["variants"].pop(VARIANT)}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (renamed("../model.onnx"), "does not follow the manifest schema"),
        (renamed("model-a/b.onnx"), "does not follow the manifest schema"),
        (renamed("model-b.onnx"), "names the graph 'model-b.onnx', and does not list it as a file"),
        (entry(lambda manifest: manifest["files"].pop(VARIANT)), "does not list it as a file"),
        (entry(lambda manifest: manifest["files"].pop("model.onnx.data")), "reads 'model.onnx.data', which the man"),
        (entry(lambda manifest: manifest["variants"][VARIANT].pop("parity")), "does not follow the manifest schema"),
        (entry(lambda manifest: manifest["variants"][VARIANT]["processor"].pop("family")), "follow the manifest schem"),
        (
            entry(
                lambda manifest: manifest["variants"][VARIANT]["session_options"]["config_entries"].update(
                    {"session.save_to": "/etc"}
                )
            ),
            "which ffn-export never writes",
        ),
        (lambda directory: (directory / VARIANT).write_bytes(b""), "is not the file that was verified"),
        (lambda directory: (directory / "model.onnx.data").write_bytes(b"0" * 600_000), "is not the file that"),
    ],
)
def test_a_damaged_one_is_not_loaded(
    joined: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], said: str
) -> None:
    change(joined)
    on(monkeypatch, OTHER)
    with pytest.raises(IntegrityError) as caught:
        fx.load(joined)
    assert said in str(caught.value)
    with pytest.raises((IntegrityError, UsageError)):
        fx.verify(joined)


@pytest.mark.parametrize("fill", [-1e9, -np.inf, np.nan])
def test_outputs_are_near_beside_a_fill(fill: float) -> None:
    one = np.where(np.arange(8) < 2, fill, 1 + np.arange(8.0)).astype(np.float32)
    assert join._is_near(one, np.where(np.arange(8) < 2, one, np.nextafter(one, np.float32(0))))
    assert not join._is_near(one, np.where(np.arange(8) == 5, np.float32(1), one))
    assert not join._is_near(one, np.where(np.arange(8) == 0, np.float32(1), one))
