from __future__ import annotations

import importlib
import random
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim as TorchDim

from ffn_export.core.tensor_spec import Dim
from ffn_export.errors import ExportError, UsageError
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, from_module, resolve
from tests.exporter.helpers import X, assert_same_function, module_of, refusal, shapes

INPUT = ["x:float32[n,4]"]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of user code, which is the current one; what was imported from it goes afterwards."""
    (tmp_path / "user_models.py").write_text(
        dedent("""
        import sys
        import torch
        from torch import nn

        def linear(): return nn.Linear(4, 4)
        class Model(nn.Linear):
            def __init__(self): super().__init__(4, 2)
            @staticmethod
            def tiny(): return nn.Linear(4, 1)
        ready = nn.Linear(4, 3)
        def raises(): raise RuntimeError("cannot open weights.bin" + chr(10) + "on the second line")
        def leaves(): sys.exit("no such checkpoint")
        def nothing(): return None
        def a_class(): return Model
        def with_arguments(width): return nn.Linear(width, width)
        number = 3
        """)
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    importlib.invalidate_caches()
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def output_width(source: Source) -> int:
    module = source.module
    assert isinstance(module, nn.Linear)
    return module.out_features


@pytest.mark.parametrize(
    ("spec", "name", "width"),
    [
        ("user_models:linear", "linear", 4),
        ("user_models:Model", "Model", 2),
        ("user_models:Model.tiny", "tiny", 1),
        ("user_models:ready", "ready", 3),
    ],
)
def test_a_factory_a_class_a_method_or_a_module(user: Path, spec: str, name: str, width: int) -> None:
    source = resolve(spec, INPUT)
    assert (source.kind, source.name, source.spec, source.seed) == ("factory", name, spec, 0)
    assert output_width(source) == width
    assert not source.module.training


@pytest.mark.usefixtures("user")
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("bert-fnn", "no preset is named 'bert-fnn'; did you mean 'bert-ffn'? run `ffn-export list` for all"),
        (
            "user_models",
            "run `ffn-export list` for all, or write package.module:factory, hf:DIR or a .pt2",
        ),
        ("", "no preset is named ''"),
        ("user_models:", "'user_models' has no ''; write package.module:factory"),
        (":linear", "write package.module:factory, without a path"),
        (".user_models:linear", "write package.module:factory, without a path"),
        ("user_models.py:linear", "is no module: write user_models:linear"),
        ("./user_models:linear", "is no module: write user_models:linear"),
        ("pack/user_models.py:", "is no module: write pack.user_models:factory"),
        ("../user_models.py:linear", "write package.module:factory, without a path"),
        ("user_models.py", "is the name of a file: write user_models:factory"),
        ("model.onnx", "name the PyTorch source that it is made from"),
        (".", "is a directory without a Hugging Face model"),
        ("user_modles:linear", "cannot import 'user_modles' (ModuleNotFoundError: No module named 'user_modles')"),
        ("user_models:linaer", "'user_models' has no 'linaer'; did you mean 'linear'?"),
        ("user_models:Model.tinny", "'user_models' has no 'Model.tinny'; did you mean 'tiny'?"),
        ("user_models:number", "'user_models:number' is not callable; name a function or class"),
        ("user_models:raises", "factory 'user_models:raises' raised RuntimeError: cannot open weights.bin"),
        ("user_models:leaves", "factory 'user_models:leaves' raised SystemExit: no such checkpoint"),
        ("user_models:nothing", "factory 'user_models:nothing' returned NoneType, not a torch.nn.Module"),
        ("user_models:a_class", "factory 'user_models:a_class' returned type, not a torch.nn.Module"),
        ("user_models:with_arguments", "raised TypeError: with_arguments() missing 1 required positional argument"),
        ("nowhere.pt2", "nowhere.pt2 can run code when it is opened, as every .pt2 file can: add trust=True"),
    ],
)
def test_a_spec_that_names_nothing_to_export(spec: str, words: str) -> None:
    assert words in refusal(UsageError, resolve, spec, INPUT)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import does_not_exist", "(ModuleNotFoundError: No module named 'does_not_exist')"),
        ("def f(:", "(SyntaxError: invalid syntax (broken.py, line 1))"),
        ("raise SystemExit(3)", "(SystemExit: 3)"),
        ("raise ValueError('first\\nsecond')", "(ValueError: first)"),
    ],
)
def test_a_module_that_cannot_be_imported(user: Path, code: str, words: str) -> None:
    (user / "broken.py").write_text(code)
    message = refusal(UsageError, resolve, "broken:f", INPUT)
    assert "cannot import 'broken' " + words in message
    assert "the current directory and PYTHONPATH are searched" in message


@pytest.mark.usefixtures("user")
def test_a_factory_needs_inputs_that_fit() -> None:
    nothings: list[Any] = [None, [], {}]
    for none in nothings:
        assert "'user_models:linear' needs its inputs: add inputs=" in refusal(
            UsageError, resolve, "user_models:linear", none
        )
    assert "does not parse" in refusal(UsageError, resolve, "user_models:linear", ["x"])
    assert "input 'b' fits no parameter" in refusal(
        UsageError, resolve, "user_models:linear", ["a:float32[4]", "b:float32[4]"]
    )


@pytest.mark.usefixtures("user")
def test_the_seed_decides_the_weights() -> None:
    first, again, other = (resolve("user_models:linear", INPUT, seed).module for seed in (1, 1, 2))
    assert isinstance(first, nn.Linear)
    assert isinstance(again, nn.Linear)
    assert isinstance(other, nn.Linear)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)


def test_an_import_that_draws_does_not_change_the_weights(user: Path) -> None:
    (user / "drawing_models.py").write_text(
        "import torch\nfrom torch import nn\ntorch.rand(3)\ndef make(): return nn.Linear(4, 4)\n"
    )
    first, again = (resolve("drawing_models:make", INPUT).module.state_dict() for _ in range(2))
    assert torch.equal(first["weight"], again["weight"])


def test_a_factory_leaves_the_callers_generators_where_they_were(user: Path) -> None:
    del user

    def drawn() -> tuple[float, float, float]:
        return random.random(), np.random.random(), torch.rand(()).item()  # noqa: NPY002 - the global ones are asked

    random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002 - as above
    expected = drawn()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002 - as above
    resolve("user_models:linear", INPUT, 7)
    assert drawn() == expected


def test_lazy_layers_draw_their_weights_under_the_seed(user: Path) -> None:
    (user / "lazy_models.py").write_text("from torch import nn\ndef make(): return nn.LazyLinear(3)\n")
    first, again, other = (resolve("lazy_models:make", INPUT, seed).module.state_dict() for seed in (1, 1, 2))
    assert torch.equal(first["weight"], again["weight"])
    assert not torch.equal(first["weight"], other["weight"])


@pytest.mark.usefixtures("user")
@pytest.mark.parametrize("seed", [2**63, -1, "a", 1.5])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    for spec, inputs in (("d2l-ffn", None), ("user_models:linear", INPUT)):
        assert "seed must be a whole number from 0 to" in refusal(UsageError, resolve, spec, inputs, seed)
    assert resolve("user_models:linear", INPUT, 2**63 - 1).seed == 2**63 - 1


def test_a_preset_brings_its_inputs_and_takes_others() -> None:
    preset = resolve("d2l-ffn")
    assert (preset.kind, preset.outputs, preset.example) == ("preset", ("y",), {"batch": 2, "seq": 3})
    assert {spec.name: str(spec) for spec in preset.inputs} == {"x": "float32[batch,seq,4]"}
    assert "Zhang" in preset.reference
    assert [str(spec) for spec in resolve("d2l-ffn", ["x:float32[n,4]"]).inputs] == ["float32[n,4]"]
    for name, words in (("y", "'y' is no input of d2l-ffn; it takes: x"), ("X", "did you mean 'x'?")):
        assert words in refusal(UsageError, resolve, "d2l-ffn", [f"{name}:float32[n,4]"])


def test_a_module_that_the_caller_holds_keeps_its_mode() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    source = from_module(module, {"input": "float32[n,4]"})
    assert (source.kind, source.name, source.spec) == (
        "module",
        "Sequential",
        "torch.nn.modules.container.Sequential",
    )
    assert source.module is module
    assert module.training


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Linear, "expected a torch.nn.Module, got type"),
        ("bert-ffn", "expected a torch.nn.Module, got str"),
        (None, "expected a torch.nn.Module, got NoneType"),
    ],
)
def test_what_is_no_module(module: Any, words: str) -> None:
    assert words in refusal(UsageError, from_module, module, X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_torchscript_module() -> None:
    traced = torch.jit.trace(nn.Linear(4, 4), torch.zeros(2, 4))  # type: ignore[no-untyped-call]
    assert "give the torch.nn.Module that it was made from" in refusal(UsageError, from_module, traced, X)


def test_inputs_are_put_into_the_order_of_forward() -> None:
    module = module_of(lambda self, a, b, *, c: a + b + c)
    source = from_module(module, {"c": "float32[n]", "b": "float32[n]", "a": "float32[n]"})
    assert [spec.name for spec in source.inputs] == ["a", "b", "c"]


# --- exported programs --------------------------------------------------------------------------------


def saved(path: Path, module: nn.Module, args: tuple[Any, ...], shapes: Any = None, **kwargs: Any) -> str:
    program = torch.export.export(module, args, kwargs, dynamic_shapes=shapes, strict=False)
    torch.export.save(program, path)
    return str(path)


program = partial(resolve, trust=True)


@pytest.fixture
def dynamic(tmp_path: Path) -> str:
    axes = {"input": {0: TorchDim("batch"), 1: TorchDim("seq", max=64)}}
    return saved(tmp_path / "linear.pt2", nn.Linear(4, 3).eval(), (torch.zeros(2, 3, 4),), axes)


def test_a_program_brings_its_inputs_and_bounds(dynamic: str) -> None:
    source = program(dynamic)
    assert (source.kind, source.name, source.spec) == ("exported_program", "linear", dynamic)
    (spec,) = source.inputs
    first, second, last = spec.dims
    assert (spec.name, spec.dtype, last) == ("input", "float32", 4)
    assert isinstance(first, Dim)
    assert isinstance(second, Dim)
    assert (first.minimum, first.maximum, second.minimum, second.maximum) == (0, None, 0, 64)


@pytest.mark.slow
def test_a_program_takes_the_users_names(dynamic: str) -> None:
    source = program(dynamic, ["hidden:float32[batch,seq<=64,4]"])
    model = export_source(source)
    assert shapes(model.graph.inputs) == {"hidden": "[batch,seq,4]"}
    assert shapes(model.graph.outputs) == {"y": "[batch,seq,3]"}
    assert_same_function(source, model, {"batch": 1, "seq": 64}, {"batch": 5, "seq": 2}, {"batch": 0, "seq": 1})


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ("x:float32[batch,seq<=64,5]", "asked for as float32[batch,seq<=64,5], but the exported program has float32["),
        ("x:float64[batch,seq<=64,4]", "asked for as float64[batch,seq<=64,4]"),
        ("x:float32[2,seq<=64,4]", "export the program again with these axes dynamic"),
        ("x:float32[batch,4]", "export the program again with these axes dynamic"),
        (
            ["x:float32[n,4]", "z:float32[n]"],
            "program takes 1 inputs, 2 were given: it has input:float32[",
        ),
    ],
)
def test_a_program_is_not_what_was_asked_for(dynamic: str, inputs: Any, words: str) -> None:
    assert words in refusal(UsageError, program, dynamic, inputs)


@pytest.mark.slow
def test_a_program_is_bounded_where_it_was_made_so(dynamic: str) -> None:
    source = program(dynamic, ["x:float32[batch,seq,4]"])
    assert "bounds axis 'seq': write seq<=64 for it" in refusal(ExportError, export_source, source)


@pytest.mark.slow
def test_static_axes_of_a_program_are_not_dynamic(tmp_path: Path) -> None:
    path = saved(tmp_path / "static.pt2", nn.Linear(4, 4), (torch.zeros(2, 4),))
    message = refusal(UsageError, program, path, ["x:float32[batch,4]"])
    assert "asked for as float32[batch,4], but the exported program has float32[2,4]" in message
    assert "export the program again with these axes dynamic" in message
    assert shapes(export_source(program(path)).graph.outputs) == {"y": "[2,4]"}


@pytest.mark.slow
def test_inputs_of_a_program_by_keyword_in_lists_and_constant(tmp_path: Path) -> None:
    def forward(self: Any, x: Any, mask: Any = None, *, pair: Any, times: int = 1) -> Any:
        assert mask is None
        return x * times + pair[0] - pair[1]["b"]

    tensors = [torch.zeros(2, 4) for _ in range(3)]
    path = saved(
        tmp_path / "nested.pt2", module_of(forward), (tensors[0], None), pair=[tensors[1], {"b": tensors[2]}], times=3
    )
    source = program(path, ["x:float32[2,4]", "a:float32[2,4]", "b:float32[2,4]"])
    model = export_source(source)
    assert shapes(model.graph.inputs) == dict.fromkeys(("x", "a", "b"), "[2,4]")
    assert_same_function(source, model, {})


def test_inputs_of_a_program_go_by_name_where_all_fit(tmp_path: Path) -> None:
    axis = {0: TorchDim("n")}
    module = module_of(lambda self, x, m: x - 2 * m)
    path = saved(tmp_path / "two.pt2", module, (torch.zeros(2, 4), torch.zeros(2, 4)), {"x": axis, "m": axis})
    assert [spec.name for spec in program(path, ["m:float32[n,4]", "x:float32[n,4]"]).inputs] == ["x", "m"]
    assert [spec.name for spec in program(path, ["p:float32[n,4]", "q:float32[n,4]"]).inputs] == ["p", "q"]
    assert "'m' stands where the exported program has 'x'" in refusal(
        UsageError, program, path, ["m:float32[n,4]", "q:float32[n,4]"]
    )
    untied = program(path, ["p:float32[n,4]", "q:float32[k,4]"])
    assert "'n' and 'k' are equal: give them one name in inputs=" in refusal(ExportError, export_source, untied)


def test_integer_inputs_of_a_program_stay_below_its_tables(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "table.pt2", nn.Embedding(9, 2), (torch.zeros(3, dtype=torch.int64),), {"input": {0: TorchDim("n")}}
    )
    assert [spec.value_range for spec in program(path).inputs] == [(0, 8)]


def test_a_program_made_in_training_mode(tmp_path: Path) -> None:
    path = saved(tmp_path / "training.pt2", nn.Dropout(0.5).train(), (torch.zeros(2, 4),))
    assert "dropout runs in training mode" in refusal(ExportError, export_source, program(path))


def test_a_program_with_an_axis_of_even_sizes_only(tmp_path: Path) -> None:
    module = module_of(lambda self, x: x.view(-1, 2))
    path = saved(tmp_path / "even.pt2", module, (torch.zeros(6),), {"x": {0: 2 * TorchDim("half")}})
    assert "has an axis of size 2*" in refusal(UsageError, program, path)


def test_a_file_that_is_no_program(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text.pt2"
    path.write_text("no zip")
    assert "is no exported program of torch.export.save" in refusal(UsageError, program, str(path))
    assert capfd.readouterr() == ("", "")
