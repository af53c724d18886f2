"""Wrong arguments of the verbs are told in the words of the caller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch

import ffn_export as fx
from ffn_export.core import plain_file
from ffn_export.errors import ExportError, UsageError
from ffn_export.testing import assert_parity


@pytest.mark.parametrize("verb", [fx.export, fx.verify, fx.bench, fx.bisect, fx.build])
def test_an_unknown_keyword_names_the_verb_and_what_is_meant(verb: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=rf"{verb.__name__}\(\) got an unexpected keyword argument 'sede'.*'seed'"):
        verb("d2l-ffn", sede=1)


def test_a_class_is_no_module() -> None:
    with pytest.raises(UsageError, match=r"Identity is a class: pass a module, such as Identity\(\)\.eval\(\)"):
        fx.export(torch.nn.Identity, "x:float32[batch,4]")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"3 is no PyTorch source: pass a torch\.nn\.Module, a preset"):
        fx.export(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("verb", [fx.verify, fx.bench])
def test_options_of_loading_need_a_source_that_is_loaded(verb: Callable[..., Any], tmp_path: Path) -> None:
    model, other = fx.export("d2l-ffn"), tmp_path / "other.onnx"
    fx.save(model, other)
    with pytest.raises(UsageError, match="dtype= says how a PyTorch source is loaded: name one with against="):
        verb(model, dtype="float16")
    with pytest.raises(UsageError, match=r"keep_io= says how a PyTorch source is loaded: other\.onnx is none"):
        fx.verify(model, other, keep_io=True)


def test_what_is_no_source_is_told_in_one_line() -> None:
    with pytest.raises(UsageError) as caught:
        fx.export(torch.nn.Linear(64, 64).state_dict())  # type: ignore[arg-type]
    assert "is no PyTorch source" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_values_of_another_type_are_told_in_one_line() -> None:
    verbs: Any = fx  # wrong types on purpose
    model = fx.export("d2l-ffn")
    with pytest.raises(UsageError, match=r"torch\.float16.*did you mean 'float16'"):
        verbs.export("d2l-ffn", dtype=torch.float16)
    with pytest.raises(UsageError, match="unknown precision ''"):
        verbs.export("d2l-ffn", dtype="")
    with pytest.raises(UsageError, match="unknown target None"):
        verbs.fuse(model, target=None)
    with pytest.raises(UsageError, match="unknown runtime 3"):
        verbs.verify(model, "d2l-ffn", runtimes=[3])
    for name, said in (("runtimes", "are a list"), ("tolerances", "are Tolerances"), ("failures", "is the path")):
        with pytest.raises(UsageError, match=f"{name} {said}.*, got 3"):
            assert_parity("d2l-ffn", model, **{name: cast("Any", 3)})
    with pytest.raises(UsageError, match="Linear is a class"):
        verbs.verify(model, against=torch.nn.Linear)
    with pytest.raises(UsageError, match="is no PyTorch source"):
        verbs.verify(model, against=model)
    with pytest.raises(UsageError, match="samples are a mapping of input names to arrays, got str"):
        verbs.quantize(model, samples="x.npz")
    with pytest.raises(UsageError, match="8 is no QuantizationOptions"):
        verbs.quantize(model, 8)


@pytest.mark.parametrize("argument", ["jobs", "threads"])
@pytest.mark.parametrize("number", [0, "2"])
def test_a_count_is_a_number_above_0(argument: str, number: Any) -> None:
    model = fx.export("d2l-ffn")
    with pytest.raises(UsageError, match="take 1 or more"):
        fx.verify(model, "d2l-ffn", fast=True, runtimes=["ort-cpu"], **{argument: number})


def test_an_opset_is_a_number() -> None:
    with pytest.raises(ExportError, match="opset '20' is not written by torch's exporter here: use opset=18 to"):
        fx.export("d2l-ffn", opset="20")  # type: ignore[arg-type]


def test_a_runtime_is_known_before_anything_is_exported(tmp_path: Path) -> None:
    steps: list[str] = []
    with pytest.raises(UsageError, match="unknown runtime 'ort'; did you mean 'ort-cpu'"):
        fx.build("d2l-ffn", directory=tmp_path, runtimes=["ort"], progress=steps.append)
    assert steps == []


def test_a_model_replaces_models_alone(tmp_path: Path) -> None:
    model, code, other = fx.export("d2l-ffn"), tmp_path / "model.py", tmp_path / "model.bin"
    code.write_text("import torch\n")
    with pytest.raises(UsageError, match=r"model.py exists and does not hold an ONNX model, which would replace it"):
        fx.save(model, code)
    assert code.read_text() == "import torch\n"
    for _ in range(2):
        fx.save(model, other)
    assert other.stat().st_size > 100


def test_a_file_in_place_of_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=rf"cannot write to .*: {tmp_path / 'file'} is a file, name a directory"):
        fx.save(fx.export("d2l-ffn"), tmp_path / "file" / "below" / "model.onnx")
    denied = plain_file.not_writable(tmp_path, PermissionError(13, "Permission denied"))
    assert str(denied) == f"cannot write to {tmp_path}: Permission denied"
