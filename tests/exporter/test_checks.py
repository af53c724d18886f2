from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

from ffn_export.core.tensor_spec import parse_inputs
from ffn_export.errors import ExportError
from ffn_export.exporter.capture import capture
from ffn_export.exporter.checks import (
    TracedSizeError,
    check_inference_only,
    check_inputs,
    check_opset,
    check_output_axes,
    check_ranges,
    check_valid,
)
from ffn_export.exporter.export import export_source
from ffn_export.exporter.module_state import changed_buffer
from ffn_export.exporter.opset_hint import opset_hint
from ffn_export.exporter.source import from_module
from tests.exporter.helpers import X, assert_same_function, exported, module_of, ops, refusal

pytestmark = pytest.mark.usefixtures("shell_words")


def graph(text: str) -> ir.Model:
    return ir.from_proto(onnx.parser.parse_model('<ir_version: 10, opset_import: ["" : 20]>\n' + text))


def relu(shape: str) -> ir.Model:
    return graph(f"g (float[{shape}] x) => (float[{shape}] y) {{ y = Relu(x) }}")


# --- the graph ----------------------------------------------------------------------------------------


def test_a_graph_that_is_what_was_asked_for() -> None:
    model = relu("batch,seq,4")
    check_opset(model, 20)
    check_inputs(model, parse_inputs(X))
    check_valid(model)


@pytest.mark.parametrize(
    ("shape", "expected", "words"),
    [
        (
            "2,seq,4",
            TracedSizeError,
            "axis 'batch' of input 'x' is specialised to 2 by the module: write 2 instead of the name",
        ),
        ("batch,4", ExportError, "input 'x' was asked for as float32[batch,seq,4], the graph has [batch,4]"),
    ],
)
def test_an_input_of_another_shape(shape: str, expected: type[ExportError], words: str) -> None:
    assert words in refusal(expected, check_inputs, relu(shape), parse_inputs(X))


def test_an_input_of_another_name_or_dtype() -> None:
    model = relu("n")
    assert "input 'z' does not reach any output" in refusal(
        ExportError, check_inputs, model, parse_inputs("z:float32[n]")
    )
    assert "asked for as float64, the graph has FLOAT" in refusal(
        ExportError, check_inputs, model, parse_inputs("x:float64[n]")
    )
    assert refusal(ExportError, check_inputs, model, ()) == "the graph has inputs that were not asked for: x"


def test_another_opset() -> None:
    message = refusal(ExportError, check_opset, relu("n"), 23)
    assert message == "opset 23 is not supported for this module, torch's exporter stayed at 20: use a lower --opset"


@pytest.mark.slow
def test_an_output_axis_that_lost_its_symbol() -> None:
    source = from_module(module_of(lambda self, x: (None, x.relu(), x.mean(1))), X)
    program, model = capture(source, 20)
    check_output_axes(model, program)
    model.graph.outputs[1].shape = ir.Shape([2, 4])
    message = refusal(TracedSizeError, check_output_axes, model, program)
    assert message == "axis 0 of output 'output_2' was specialised to 2 in the graph"
    model.graph.outputs[1].shape = ir.Shape([4])
    assert "output 'output_2' has rank 2" in refusal(ExportError, check_output_axes, model, program)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (("seq,4", "seq,4"), None),
        (("seq,4", None), None),  # of no known shape
        ((None, "seq,4"), None),
        (("2,4", "seq,4"), "axis 0 of output 'a' was specialised to 2 in the graph"),
        (("seq,4", "seq,2"), None),  # both are fixed, and the checker compares them
        (("4", "seq,4"), "output 'a' has rank 2, the graph gives it 1"),
        (("seq,4", "seq,4,1"), "output 'b' has rank 2, the graph gives it 3"),
        ((None, "seq,4,1"), "output 'b' has rank 2, the graph gives it 3"),
    ],
)
def test_axes_of_outputs(shapes: tuple[str | None, ...], words: str | None) -> None:
    module = module_of(lambda self, x: (x.relu(), None, x.neg()))
    program = torch.export.export(module, (torch.zeros(3, 4),), dynamic_shapes=((Dim.AUTO, 4),))
    outputs = ", ".join(f"float[{shape or ''}] {name}" for name, shape in zip("ab", shapes, strict=True))
    model = graph(f"g (float[seq,4] x) => ({outputs}) {{ a = Relu(x) b = Neg(x) }}")
    for value, shape in zip(model.graph.outputs, shapes, strict=True):
        value.shape = value.shape if shape else None
    if words is None:
        check_output_axes(model, program)
    else:
        expected = TracedSizeError if "specialised" in words else ExportError
        assert refusal(expected, check_output_axes, model, program) == words


@pytest.mark.parametrize(
    ("traced", "asked", "takes"),
    [
        (Dim.AUTO, "seq", None),  # torch records a lower bound of 2
        (Dim("seq", min=3), "3<=seq", None),
        (Dim("seq", min=3), "5<=seq", None),
        (Dim("seq", min=3), "seq", "3<=seq"),
        (Dim("seq", max=16), "seq<=16", None),
        (Dim("seq", max=16), "seq", "seq<=16"),
        (Dim("seq", min=3, max=16), "seq<=16", "3<=seq<=16"),
    ],
)
def test_bounds_of_a_trace(traced: Any, asked: str, takes: str | None) -> None:
    module = module_of(lambda self, x: x.relu())
    program = torch.export.export(module, (torch.zeros(4, 4),), dynamic_shapes=({0: traced},))
    specs = parse_inputs({"x": f"float32[{asked},4]"})
    if takes is None:
        check_ranges(program, specs)
    else:
        assert f"bounds axis 'seq': write {takes} for it" in refusal(TracedSizeError, check_ranges, program, specs)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("g (float[n] x) => (float[n] y) { y = Reluu(x) }", "No Op registered for Reluu"),
        ("g (float[n,4] x) => (float[n,4] y) { y = Concat<axis = 7>(x, x) }", "[ShapeInferenceError] "),
        ("g (float[n] x) => (float[n] y) { y = Relu(z) }", "Nodes in a graph must be topologically sorted"),
    ],
)
def test_a_graph_that_the_onnx_checker_rejects(text: str, words: str) -> None:
    message = refusal(ExportError, check_valid, graph(text))
    assert message.startswith(f"the ONNX checker rejects the exported model: {words}")
    assert "--opset" not in message


class Convolved(nn.Module):
    """A convolution over the tokens, and a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv1d(8, 8, 3, padding=1, groups=8), nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.conv(x.transpose(1, 2)))
        return y.transpose(1, 2)


def test_a_dtype_that_an_operator_takes_later_and_a_batch_norm_that_keeps_it() -> None:
    source = from_module(Convolved().bfloat16().eval(), {"x": "bfloat16[batch,seq,8]"})
    message = refusal(ExportError, partial(export_source, opset=20), source)
    assert message.endswith("; Conv takes bfloat16 from opset 22 on: use --opset 22")
    model = export_source(source, opset=22)
    operators = [node.op_type for node in model.graph if node.op_type != "Transpose"]
    assert operators == ["Conv", "BatchNormalization"]


def test_no_opset_is_named_for_inputs_of_different_dtypes() -> None:
    """A later opset takes each of them, and not both at once."""
    x, w = ir.val("x", ir.DataType.BFLOAT16, [1, 8, 4]), ir.val("w", ir.DataType.FLOAT, [8, 8, 1])
    node = ir.node("Conv", [x, w])
    model = ir.Model(ir.Graph([x, w], node.outputs, nodes=[node], opset_imports={"": 20}), ir_version=10)
    assert opset_hint(model) == ""
    w.dtype = ir.DataType.BFLOAT16
    assert opset_hint(model) == "; Conv takes bfloat16 from opset 22 on: use --opset 22"


class InHalf(Convolved):
    """The same, with float32 weights that are cast in ``forward``."""

    def __init__(self, *, by_autocast: bool) -> None:
        super().__init__()
        self.by_autocast = by_autocast

    def forward(self, x: Tensor) -> Tensor:
        if self.by_autocast:
            with torch.autocast("cpu", dtype=torch.float16):
                return super().forward(x).float()
        x, weight = x.transpose(1, 2).half(), self.conv.weight.half()
        y: Tensor = self.norm(F.conv1d(x, weight, padding=1, groups=8)).float().transpose(1, 2)
        return y


@pytest.mark.parametrize("by_autocast", [False, True])
def test_a_batch_norm_behind_weights_that_are_cast_is_kept(by_autocast: bool) -> None:
    model = export_source(from_module(InHalf(by_autocast=by_autocast).eval(), {"x": "float32[batch,seq,8]"}), opset=22)
    assert [node.op_type for node in model.graph if node.op_type in ("Conv", "BatchNormalization")] == [
        "Conv",
        "BatchNormalization",
    ]


def test_a_batch_norm_in_float32_becomes_part_of_the_convolution() -> None:
    model = export_source(from_module(Convolved().eval(), {"x": "float32[batch,seq,8]"}))
    assert [node.op_type for node in model.graph if node.op_type != "Transpose"] == ["Conv"]


# --- what is for training only ------------------------------------------------------------------------


def batch_statistics(self: nn.Module, x: Tensor) -> Tensor:
    return F.batch_norm(x, None, None, training=True)


@pytest.mark.parametrize(
    ("forward", "words"),
    [
        (lambda self, x: F.dropout(x, 0.5), "dropout runs in training mode: pass training=self.training to it"),
        (lambda self, x: F.dropout(x, 0.5, training=True), "dropout runs in training mode"),
        (lambda self, x: F.alpha_dropout(x, 0.5, training=True), "alpha_dropout runs in training mode"),
        (batch_statistics, "batch_norm runs in training mode"),
        (lambda self, x: x + torch.randn_like(x), "randn_like draws random numbers, a graph must not"),
        (lambda self, x: x + torch.rand(4), "rand draws random numbers"),
        # Folded to a constant by the translation, so that no graph shows it.
        (lambda self, x: x * torch.bernoulli(torch.full((4,), 0.5)), "bernoulli draws random numbers"),
        (
            lambda self, x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.1),
            "scaled_dot_product_attention draws random numbers",
        ),
    ],
)
def test_dropout_left_active_and_other_chance(forward: Callable[..., Any], words: str) -> None:
    assert words in refusal(ExportError, exported, module_of(forward), {"x": "float32[batch,heads,seq,4]"})


def test_the_submodule_is_named() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(x)

    module = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), Noisy()))
    assert "dropout in 1.1 runs in training mode" in refusal(ExportError, exported, module, {"x": "float32[n,4]"})


def test_a_buffer_that_changes_from_call_to_call() -> None:
    def forward(self: Any, x: Tensor) -> Any:
        self.calls.add_(1)
        return x * self.calls

    module = module_of(forward, calls=nn.Buffer(torch.zeros(())))
    assert "forward changes buffer 'calls'" in refusal(ExportError, exported, module, X)


@pytest.mark.slow
@pytest.mark.parametrize(
    "write",
    [
        lambda buffer, x: buffer[1:].view(-1).mul_(2),
        lambda buffer, x: buffer.chunk(2)[0].add_(1),
        lambda buffer, x: torch.add(x.sum((0, 1)), 1, out=buffer),
        lambda buffer, x: buffer.index_put_((torch.tensor([0]),), x.sum((0, 1))[:1]),
    ],
    ids=["view", "item of a list", "out", "index"],
)
def test_a_write_to_a_part_of_a_buffer(write: Callable[[Tensor, Tensor], Tensor]) -> None:
    def forward(self: Any, x: Tensor) -> Any:
        write(self.state, x)
        return x * self.state

    module = module_of(forward, state=nn.Buffer(torch.zeros(4)))
    assert "forward changes buffer 'state'" in refusal(ExportError, exported, module, X)


@pytest.mark.parametrize("dropout", [F.dropout, F.alpha_dropout])
def test_a_write_to_what_returns_the_buffer_itself(dropout: Callable[[Tensor, float, bool], Tensor]) -> None:
    """The program holds a dropout of the buffer, which PyTorch returns as it is, as a copy."""

    def forward(self: Any, x: Tensor) -> Any:
        dropout(self.part.state, 0.1, self.training).add_(1)
        return x * self.part.state

    state = nn.Buffer(torch.zeros(4))
    module = module_of(forward, part=module_of(lambda self, x: x, state=state))
    assert "forward changes buffer 'part.state'" in refusal(ExportError, exported, module, X)
    assert torch.equal(state, torch.zeros(4))


def test_zeros_that_become_nan_have_changed_and_nan_that_stays_has_not() -> None:
    state = nn.Buffer(torch.zeros(2, dtype=torch.float8_e4m3fn))
    module = module_of(lambda self, x: x, state=state)
    assert changed_buffer(module, lambda: state.copy_(torch.full((2,), torch.nan))) == "state"
    assert changed_buffer(module, lambda: state.copy_(torch.full((2,), torch.nan))) is None


def test_a_buffer_that_the_first_call_fills_is_kept() -> None:
    def forward(self: Any, x: Tensor) -> Any:
        if self.empty:
            self.empty = False
            self.state.add_(2)
        y = x.clone()
        return y.mul_(self.state)

    module = module_of(forward, state=nn.Buffer(torch.zeros(4)), empty=True)
    assert "Mul" in ops(exported(module, X))


def test_a_write_to_memory_of_its_own_is_seen_without_a_decomposition(monkeypatch: pytest.MonkeyPatch) -> None:
    def forward(self: Any, x: Tensor) -> Any:
        own = (x * self.state).clone()
        own[..., 0] += self.state[0]
        return own

    def refused(*_: object) -> None:
        raise AssertionError("the program was decomposed")

    module = module_of(forward, state=nn.Buffer(torch.ones(4)))
    program = torch.export.export(module, (torch.ones(2, 4),), strict=False)
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", refused)
    check_inference_only(program)


@pytest.mark.slow
def test_writes_that_stay_within_a_call_are_fine() -> None:
    def forward(self: Any, x: Tensor) -> Any:
        x.add_(1)
        y = x.clone()
        y[:, 0] = 0
        return y + self.offset

    source = from_module(module_of(forward, offset=nn.Buffer(torch.ones(4))), X)
    assert_same_function(source, exported(source.module, X), {"batch": 2, "seq": 1}, {"batch": 1, "seq": 5})


@pytest.mark.slow
def test_dropout_that_is_off_is_no_trouble() -> None:
    def forward(self: Any, x: Tensor) -> Any:
        return self.attention(x, x, x)[0] + F.dropout(x, 0.1, training=self.training) + self.dropout(x)

    module = module_of(forward, attention=nn.MultiheadAttention(4, 2, 0.1, batch_first=True), dropout=nn.Dropout(0.1))
    source = from_module(module.eval(), X)
    model = exported(module, X)
    assert "Dropout" not in ops(model)
    assert_same_function(source, model, {"batch": 2, "seq": 7})
