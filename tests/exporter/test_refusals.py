"""What cannot be exported as it is asked for is refused in words that say what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import from_module
from tests.exporter.helpers import X, assert_same_function, exported, module_of, ops, refused

pytestmark = pytest.mark.usefixtures("shell_words")

# --- sizes that the module does not take, or takes another way ----------------------------------------


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda self, x: x.reshape(2, 3, 4), "axis 'batch' of input 'x' is specialised to 2"),
        (lambda self, x: x * float(x.shape[1]), "axis 'seq' of input 'x' is specialised to 3"),
        (lambda self, *x: x[0].reshape(2, 3, 4), "axis 'batch' of input 'x' is specialised to 2"),
        (lambda self, **x: x["x"].expand(2, 3, 4), "axis 'batch' of input 'x' is specialised to 2"),
    ],
)
def test_a_specialised_axis(forward: Callable[..., Any], words: str) -> None:
    message = refused(module_of(forward))
    assert words in message
    assert "instead of the name in --input, or take the size from the input in forward" in message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forward", "bound"),
    [
        (lambda self, x: x + 1 if x.shape[1] > 2 else x - 1, "3<=seq"),
        (lambda self, x: x + 1 if x.shape[1] > 100 else x - 1, "seq<=100"),
        (lambda self, x: x + 1 if x.shape[1] > 1 else x - 1, "2<=seq"),
        (lambda self, x: x + 1 if 2 * x.shape[1] + 1 < 64 else x - 1, "seq<=31"),
        # Tables of positions: sliced, looked up, and looked up with an offset.
        (lambda self, x: x + self.table.weight[: x.shape[1]], "seq<=16"),
        (lambda self, x: x + self.table(torch.arange(16)[None, : x.shape[1]]), "seq<=16"),
        (lambda self, x: x + self.table(torch.arange(x.shape[1])), "seq<=16"),
        (lambda self, x: x + self.table(torch.arange(x.shape[1]).unsqueeze(0).expand(2, -1)[:1] + 2), "seq<=14"),
        (lambda self, x: x + self.table(torch.arange(2, x.shape[1] + 2)), "seq<=14"),
    ],
)
def test_a_bound_is_said(forward: Callable[..., Any], bound: str) -> None:
    module = module_of(forward, table=nn.Embedding(16, 4))
    assert refused(module) == (
        f"the module, as torch.export traced it, bounds axis 'seq': write {bound} for it in --input, "
        "or take branches on the size out of forward"
    )


def test_a_layer_that_forward_converts_is_named() -> None:
    """Routers of experts do so; PyTorch would give each parameter new contents in the trace."""
    module = module_of(lambda self, x: self.router.to(torch.float32)(x), router=nn.Linear(4, 4))
    assert "forward converts a Linear with .to(...)" in refused(module)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forward", "bound", "sizes"),
    [
        (lambda self, x: x + 1 if x.shape[1] > 2 else x - 1, "3<=seq", (3, 50)),
        (lambda self, x: x + self.table.weight[: x.shape[1]], "seq<=16", (0, 1, 16)),
        (lambda self, x: x + self.table(torch.arange(x.shape[1])), "seq<=16", (0, 1, 16)),
    ],
)
def test_with_the_bound_that_is_said_it_exports(
    forward: Callable[..., Any], bound: str, sizes: tuple[int, ...]
) -> None:
    source = from_module(module_of(forward, table=nn.Embedding(16, 4)), {"x": f"float32[batch,{bound},4]"})
    assert_same_function(source, export_source(source), *({"batch": 2, "seq": size} for size in sizes))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (
            lambda self, x: x + 1 if x.shape[1] != 5 else x - 1,
            "at seq=5 than the graph, which holds only where seq !=",
        ),
        (
            lambda self, x: x + 1 if x.shape[1] % 2 else x - 1,
            "at seq=2 than the graph, which holds only where (seq %",
        ),
        (lambda self, x: x + 1 if x.shape[1] > x.shape[0] else x, "at seq=2, batch=2 than"),
        (lambda self, x: x + 1 if x.shape[0] * x.shape[1] > 10 else x - 1, "holds only where seq*batch <= 10"),
        (
            lambda self, x: x + 1 if x.shape[1] == 1 else x - 1,
            "at seq=1 than the graph, which holds only where seq !=",
        ),
    ],
)
def test_a_branch_on_sizes_that_no_bound_describes(forward: Callable[..., Any], words: str) -> None:
    message = refused(module_of(forward))
    assert "forward takes another branch " in message
    assert words in message
    assert "write one function for all sizes" in message


@pytest.mark.slow
def test_a_branch_is_refused_in_a_module_with_pointwise_convolutions_too() -> None:
    module = module_of(lambda self, x: self.conv(x) * (1 if x.shape[2] % 2 else 2), conv=nn.Conv1d(4, 4, 1))
    assert "holds only where (seq % 2) != 0" in refused(module, {"x": "float32[batch,4,seq]"})


@pytest.mark.slow
def test_sizes_that_the_module_itself_refuses_do_not_stop_an_export() -> None:
    source = from_module(module_of(lambda self, x: x.view(x.shape[0] // 2, 2, -1)), X)
    assert_same_function(source, export_source(source), {"batch": 4, "seq": 1}, {"batch": 2, "seq": 5})


def test_axes_that_have_to_be_equal() -> None:
    inputs = {"x": "float32[n,4]", "y": "float32[m,4]", "z": "float32[k]"}
    message = refused(module_of(lambda self, x, y, z: (x + y, z)), inputs)
    assert "forward failed on x:float32[2, 4], y:float32[3, 4]" in message
    assert "it works where 'n' and 'm' are equal: give them one name in --input" in message


@pytest.mark.parametrize(("first", "second"), [("n", "m"), ("m", "n")])
def test_axes_of_one_size_that_have_to_be_equal(first: str, second: str) -> None:
    # Both can only be traced at 2, so forward itself has nothing to say.
    inputs = {"x": f"float32[1<={first}<=2,4]", "y": f"float32[1<={second}<=2,4]"}
    message = refused(module_of(lambda self, x, y: x * y), inputs)
    assert f"ties axis {second!r} to {first!r}: give both one name in --input" in message


def test_axes_that_only_have_to_be_even_are_not_taken_for_equal() -> None:
    message = refused(module_of(lambda self, x: x.view(x.shape[0], x.shape[1] // 2, 2, 4)))
    assert "forward failed on x:float32[2, 3, 4]" in message
    assert "equal" not in message


# --- what cannot be a graph ---------------------------------------------------------------------------


def raising(self: nn.Module, x: Tensor) -> Tensor:
    raise ValueError("the first line\nthe second line")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (raising, "forward failed on x:float32[2, 3, 4]: ValueError: the first line"),
        (
            lambda self, x: x + 1 if x.sum() > 0 else x - 1,
            "decides by the values of a tensor (test_refusals.py, line",
        ),
        (lambda self, x: x[:, : int(x.abs().sum())], "use torch.where or torch.cond"),
        (lambda self, x: torch.from_numpy(x.numpy()), "torch.export cannot trace the module: "),
        (lambda self, x: torch.linalg.svd(x)[0], "torch.onnx cannot translate aten._linalg_svd.default to opset 20: "),
        (lambda self, x: (x, x.shape[0]), "forward returns int at '1'"),
        (lambda self, x: None, "forward returns no tensor"),
    ],
)
def test_what_forward_does_is_named(forward: Callable[..., Any], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert words in refused(module_of(forward))
    assert capfd.readouterr() == ("", "")


def twice(x: Tensor) -> Tensor:
    return x @ torch.ones(5, 5)


def absent_in_a_trace(self: nn.Module, x: Tensor) -> Any:
    mask: Any = None if torch.compiler.is_exporting() else x
    return x * mask.abs()


def unreadable(self: nn.Module, x: Tensor) -> Any:
    return x * json.loads("{")


def test_the_line_of_the_module_is_named() -> None:
    here = "(test_refusals.py, line "
    assert f"{here}{twice.__code__.co_firstlineno + 1}: return x @ torch.ones(5, 5))" in refused(
        module_of(lambda self, x: twice(x))
    )
    line = absent_in_a_trace.__code__.co_firstlineno + 2
    assert f"'abs' {here}{line}: return x * mask.abs())" in refused(module_of(absent_in_a_trace))
    # A library that the module calls is no help, and neither are PyTorch's own modules.
    line = unreadable.__code__.co_firstlineno + 1
    assert f"{here}{line}: return x * json.loads" in refused(module_of(unreadable))
    assert ", line" not in refused(nn.Linear(4, 4), {"x": "float32[n,5]"})


def test_sizes_that_fit_for_some_only_are_named_as_axes() -> None:
    message = refused(module_of(lambda self, x: sum(x.chunk(2, 1))), {"x": "float32[batch,seq,4]"})
    assert "must match the size of tensor" in message
    assert "the size of axis 'batch' or 'seq'; if forward takes some sizes only, fix one in --input" in message


@pytest.mark.filterwarnings("ignore:.*quantized:UserWarning", "ignore:.*torch.ao.quantization:DeprecationWarning")
def test_layers_that_pytorch_has_quantized_are_named() -> None:
    quantized = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear}, dtype=torch.qint8)  # type: ignore[no-untyped-call]
    message = refused(quantized, {"x": "float32[n,4]"})
    assert "the module holds layers that PyTorch has quantized, which cannot be traced" in message
    assert "`ffn-export quantize`" in message


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_an_encoder_that_drops_padded_tokens_is_told_how_not_to() -> None:
    def encoder(*, nested: bool) -> nn.Module:
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        return module_of(
            lambda self, x, mask: self.encoder(x, src_key_padding_mask=mask),
            encoder=nn.TransformerEncoder(layer, 1, enable_nested_tensor=nested),
        ).eval()

    inputs = {"x": "float32[batch,seq,16]", "mask": "bool[batch,seq]"}
    assert "make it with enable_nested_tensor=False" in refused(encoder(nested=True), inputs)
    assert "Softmax" in ops(exported(encoder(nested=False), inputs))


def test_a_size_is_refused_before_the_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The translation takes most of the time of an export."""
    monkeypatch.setattr("ffn_export.exporter.capture._translate", None)
    assert "3<=seq" in refused(module_of(lambda self, x: x + 1 if x.shape[1] > 2 else x - 1))


def test_a_wrong_dtype_or_width() -> None:
    assert "forward failed on x:float64[2, 4]: RuntimeError" in refused(nn.Linear(4, 4), {"x": "float64[n,4]"})
    assert "forward failed on x:float32[2, 5]: RuntimeError" in refused(nn.Linear(4, 4), {"x": "float32[n,5]"})
