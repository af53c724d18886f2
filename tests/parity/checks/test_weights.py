"""Which initializers are taken for which parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.utils import prune

import ffn_export as fx
from ffn_export.parity.checks import weights
from ffn_export.parity.checks.constants import traced
from ffn_export.parity.checks.constants.collect import is_setting
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.measures import WeightMetrics
from ffn_export.parity.judging.tolerances import Tolerances

Array = NDArray[Any]


def compare_weights(model: ir.Model, module: nn.Module) -> tuple[WeightMetrics, ...]:
    return weights.compare_weights(model, module).traced


def graph(**arrays: Array) -> ir.Model:
    values = [ir.Value(name=name, const_value=ir.Tensor(array, name=name)) for name, array in arrays.items()]
    return ir.Model(ir.Graph([], [], nodes=[], initializers=values), ir_version=10)


def norm() -> tuple[nn.LayerNorm, Array]:
    module = nn.LayerNorm(16, bias=False)
    module.weight.data += 0.05 * torch.linspace(-1, 1, 16)
    return module, module.weight.detach().numpy()


def test_a_constant_near_a_weight_that_is_there_is_not_that_weight() -> None:
    module, weight = norm()
    found = compare_weights(graph(ones=np.ones(16, np.float32), scale=weight), module)
    assert [(w.initializer, w.parameter, w.differing) for w in found] == [("scale", "weight", 0)]


def test_a_weight_that_is_nowhere_else_is_looked_for_in_what_is_near_it() -> None:
    module, weight = norm()
    wrong = weight.copy()
    wrong[3] *= 1.001
    found = compare_weights(graph(scale=wrong), module)
    assert [(w.initializer, w.parameter, w.differing, w.worst_index) for w in found] == [("scale", "weight", 1, (3,))]


def test_axes_that_a_translation_adds_hide_no_weight() -> None:
    module, weight = norm()
    wrong = weight.copy()
    wrong[3] *= 1.001
    found = compare_weights(graph(scale=wrong[:, None]), module)
    assert [(w.initializer, w.parameter, w.differing) for w in found] == [("scale", "weight", 1)]


def linear(*sizes: tuple[int, int]) -> nn.Module:
    torch.manual_seed(0)
    return nn.ModuleList(nn.Linear(*each) for each in sizes)


def numbers(module: nn.Module, name: str) -> Array:
    array: Array = module.get_parameter(name).detach().numpy().copy()
    return array


def found(module: nn.Module, stored: Array) -> tuple[str, str, int]:
    (only,) = compare_weights(graph(stored=stored), module)
    return only.parameter, only.how, only.differing


def test_packed_parameters_are_compared_part_by_part() -> None:
    module = linear((6, 10), (6, 10), (6, 4))
    packed = np.concatenate([numbers(module, f"{i}.weight").T for i in range(3)], axis=1)
    names = "0.weight+1.weight+2.weight"
    assert found(module, packed) == (names, "packed", 0)
    packed[5, 15] *= 1.001
    assert found(module, packed) == (names, "packed", 1)
    rows = np.concatenate([numbers(module, f"{i}.bias") for i in range(3)])
    assert found(module, rows) == ("0.bias+1.bias+2.bias", "packed", 0)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("part", [slice(0, 10), slice(10, 20), slice(8, 20)])
def test_a_part_of_a_packed_parameter_is_compared_with_that_part(axis: int, part: slice) -> None:
    """As where the halves of a gate-up projection are apart."""
    module = linear((6, 20))
    weight, bias = numbers(module, "0.weight"), numbers(module, "0.bias")
    half = (weight[part] if axis == 0 else weight.T[:, part]).copy()
    name, how, differing = found(module, half)
    assert (name, differing) == ("0.weight", 0)
    assert how.startswith(f"{part.start} to {part.stop} of axis {axis}, ")
    half[1, 1] *= 1.001
    assert found(module, half)[2] == 1
    assert found(module, bias[part])[0] == "0.bias"


def test_ones_are_no_part_of_the_scale_of_a_norm() -> None:
    module, weight = norm()
    assert [w.initializer for w in compare_weights(graph(ones=np.ones(8, np.float32), scale=weight), module)] == [
        "scale"
    ]
    assert compare_weights(graph(ones=np.ones(8, np.float32)), module) == ()


def test_what_may_be_a_part_of_several_is_called_none_of_them() -> None:
    """As of a smooth table, cut at no multiple; a copy with some noise has other rows."""
    module = linear((6, 20), (6, 20))
    first, second = (module.get_submodule(str(i)) for i in range(2))
    assert isinstance(first, nn.Linear)
    assert isinstance(second, nn.Linear)
    second.weight.data = first.weight.data * (1 + 0.05 * torch.randn(20, 6))
    half = numbers(module, "1.weight")[:10].copy()
    assert found(module, half)[0] == "1.weight"
    half[1, 1] *= 1.001
    assert found(module, half) == ("1.weight", "rows of it", 1)
    table, grid = nn.Module(), torch.stack([torch.linspace(-1, 1, 64)] * 2, 1)
    table.register_buffer("grid", grid)
    assert compare_weights(graph(stored=grid[1:-1].numpy()), table) == ()
    assert found(table, grid[1:].numpy())[2] == 0


@pytest.mark.slow
def test_a_weight_that_the_module_computes_of_its_parameters() -> None:
    """The exporter may have computed it, in another order than PyTorch."""
    torch.manual_seed(0)
    module = torch.nn.utils.parametrizations.weight_norm(nn.Linear(16, 8))
    direction, length = module.parametrizations.weight.original1, module.parametrizations.weight.original0
    length.data *= 1.3
    v, g = direction.detach().numpy(), length.detach().numpy()
    computed = v * (g / np.sqrt((v[:, ::-1] ** 2).sum(1, keepdims=True)))
    assert found(module, computed) == ("weight", "as it is", 0)
    wrong = computed.copy()
    wrong[3, 3] *= 1.001
    assert found(module, wrong)[2] == 1
    inputs = {"input": "float32[n,16]"}
    for dtype in ("float32", "mixed"):
        result = fx.verify(
            fx.export(module, inputs, dtype=dtype), module, inputs=inputs, dtype=dtype, runtimes=["ort-cpu"]
        )
        assert result.passed, result.failures[:2]


def test_an_attribute_of_that_name_is_the_modules_own() -> None:
    module = linear((6, 4))
    object.__setattr__(module, "parametrizations", None)
    assert found(module, numbers(module, "0.weight"))[2] == 0


def test_a_scaled_weight_is_compared_with_its_parameter_times_that_number() -> None:
    module = linear((8, 8))
    scaled = numbers(module, "0.weight") / np.float32(3)
    assert found(module, scaled) == ("0.weight", "times 0.333333, as it is", 0)
    scaled[2, 3] *= 1.001
    assert found(module, scaled) == ("0.weight", "times 0.333333, as it is", 1)


def test_a_scale_that_is_one_plus_a_parameter() -> None:
    module = linear((8, 8))
    scale = 1 + numbers(module, "0.bias")
    assert found(module, scale) == ("0.bias", "1 + it, as it is", 0)
    scale[0] *= 1.001
    assert found(module, scale)[2] == 1


def test_the_sum_of_two_biases() -> None:
    module = linear((8, 8), (4, 8))
    total = numbers(module, "0.bias") + numbers(module, "1.bias")
    assert found(module, total) == ("0.bias+1.bias", "their sum", 0)
    total[1] *= 1.001
    assert found(module, total)[2] == 1


def test_a_weight_in_fewer_bits_is_another_weight() -> None:
    module = linear((8, 8))
    half = numbers(module, "0.weight").astype(np.float16)
    (only,) = compare_weights(graph(stored=half), module)
    assert only.parameter == "0.weight"
    assert only.differing > 50
    assert 0 < only.relative_l2 < 1e-3


def test_a_flat_constant_is_no_multiple_of_a_flat_parameter() -> None:
    module = nn.LayerNorm(16)
    assert compare_weights(graph(half=np.full(16, 0.5, np.float32)), module) == ()


def test_other_numbers_are_traced_to_nothing() -> None:
    other = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
    assert compare_weights(graph(other=other), linear((8, 8))) == ()


def conv_and_norm() -> nn.Module:
    return nn.Sequential(nn.Conv1d(8, 16, 1), nn.BatchNorm1d(16)).eval()


def trained_conv_and_norm() -> nn.Module:
    module = conv_and_norm()
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            tensor.data.uniform_(0.9, 1.1)
    return module


def normed_by_its_weight() -> nn.Module:
    return nn.utils.parametrizations.weight_norm(nn.Linear(16, 32))  # type: ignore[no-any-return]


def pruned() -> nn.Module:
    linear = nn.Linear(16, 32)
    prune.l1_unstructured(linear, "weight", amount=0.3)  # type: ignore[no-untyped-call]
    return linear


@pytest.mark.slow
@pytest.mark.parametrize("make", [conv_and_norm, trained_conv_and_norm, normed_by_its_weight, pruned])
def test_what_weights_are_made_into_before_they_are_used(make: Callable[[], nn.Module]) -> None:
    for seed in range(3):
        torch.manual_seed(seed)
        module = make()
        spec = "float32[batch,8,n]" if isinstance(module, nn.Sequential) else "float32[batch,16]"
        model = fx.export(module, {"x": spec})
        found = compare_weights(model, module)
        assert [(each.parameter, each.differing) for each in found if each.differing] == []
        weight = max(model.graph.initializers.values(), key=lambda value: value.const_value.size)  # type: ignore[union-attr]
        wrong = weight.const_value.numpy().copy()  # type: ignore[union-attr]
        wrong.reshape(-1)[np.abs(wrong).argmax()] *= 1.001
        weight.const_value = ir.Tensor(wrong, name=weight.name)
        assert [each.differing for each in compare_weights(model, module) if each.differing] == [1]


def test_a_mask_of_infinities_is_compared_like_any_other() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask = torch.full((8, 8), -torch.inf).triu(1)

    module = Masked()
    wrong = module.mask.numpy().copy()
    wrong[5, 1] = 3.0
    (found,) = compare_weights(graph(mask=wrong), module)
    assert (found.parameter, found.differing) == ("mask", 1)


def test_constants_of_every_kind_and_place_are_compared() -> None:
    module = linear((6, 10), (10, 6))
    first, second = numbers(module, "0.weight").T.copy(), numbers(module, "1.weight").T.copy()
    second[3, 2] *= 1.001
    x = ir.Value(name="x")
    inner = ir.node("Constant", [], {"value": ir.Tensor(second, name="w")})
    inner.outputs[0].name = "w"
    body = ir.Graph([x], inner.outputs, nodes=[inner], opset_imports={"": 20}, name="Body")
    function = ir.Function("tests", "Body", graph=body, attributes=[])
    floats = ir.node("Constant", [], {"value_floats": [float(n) for n in numbers(module, "0.bias")]})
    floats.outputs[0].name = "row"
    model = graph(first=first)
    model.graph.append(floats)
    model.functions[function.identifier()] = function
    found = {each.initializer: (each.parameter, each.differing) for each in compare_weights(model, module)}
    assert found == {"first": ("0.weight", 0), "row": ("0.bias", 0), "function Body: w": ("1.weight", 1)}


def norm_and_linear() -> nn.Module:
    module = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 24), nn.Linear(24, 16))
    torch.manual_seed(1)
    for parameter in module[0].parameters():
        parameter.data.normal_(1.0, 0.3)
    return module


def test_what_folding_makes_of_parameters_is_compared() -> None:
    module = norm_and_linear()
    scale, shift, w1, b1, w2 = (
        numbers(module, name) for name in ("0.weight", "0.bias", "1.weight", "1.bias", "2.weight")
    )
    made = {
        "norm's scale in the product": (w1.T * scale[:, None], {"0.weight", "1.weight"}),
        "and in a product that is stored turned": (w1 * scale, {"0.weight", "1.weight"}),
        "norm's bias behind the product": (b1 + w1 @ shift, {"0.bias", "1.weight", "1.bias"}),
        "norm's bias alone": (w1 @ shift, {"0.bias", "1.weight"}),
        "two products in one": (w1.T @ w2.T, {"1.weight", "2.weight"}),
        "one row added to all": (w1 + shift, {"0.bias", "1.weight"}),
        "rows times numbers of their own": (w1 * np.linspace(2, 3, 24, dtype=np.float32)[:, None], {"1.weight"}),
        "scaled beside another": (np.concatenate([w1.T * 0.125, w2], axis=1), {"1.weight", "2.weight"}),
        "stacked": (np.stack([w1, w2.T]), {"1.weight", "2.weight"}),
        "reshaped": (w1.reshape(4, 6, 16), {"1.weight"}),
        "every second row, then the others": (np.concatenate([w1[::2], w1[1::2]]), {"1.weight"}),
        "rows three times": (np.tile(w1, (3, 1)), {"1.weight"}),
    }
    for what, (array, names) in made.items():
        (right,) = compare_weights(graph(stored=array), module)
        assert (set(right.parameter.split("+")), right.differing) == (names, 0), what
        wrong = array.copy()
        wrong.reshape(-1)[wrong.size // 2] += np.abs(array).max() * 0.01
        (found,) = compare_weights(graph(stored=wrong), module)
        assert found.differing == 1, what


class Tables(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        grid = np.random.default_rng(0).integers(0, 225, (49, 49))
        self.register_buffer("relative_position_index", torch.from_numpy(grid))
        self.register_buffer("causal", torch.tril(torch.ones(24, 24, dtype=torch.bool))[None, None])
        self.register_buffer("position_ids", torch.arange(64)[None])


class OfPositions(nn.Module):
    """Adds a table that products of constants and parameters make, as the bias by positions of Swin V2."""

    def __init__(self, masked: bool = False, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("places", torch.randn(8, 2, dtype=dtype))
        self.one, self.two = nn.Linear(2, 64, dtype=dtype), nn.Linear(64, 8, bias=False, dtype=dtype)
        self.masked = masked

    def forward(self, x: torch.Tensor) -> Any:
        table = self.two(self.one(self.places).relu())
        return x + (table.masked_fill(table > 0.2, -torch.inf) if self.masked else table)


def moved_by(parts: float, module: nn.Module, dtype: str = "float32") -> list[WeightMetrics]:
    """Compare the weights after the smallest number of the table moved by that many parts of the largest."""
    model = fx.export(module, {"x": f"{dtype}[batch,8,8]"})
    (value,) = (each for each in model.graph.initializers.values() if each.const_value is not None)
    assert value.const_value is not None
    table = value.const_value.numpy().copy()
    finite = np.where(np.isfinite(table), np.abs(table), 0)
    table[np.unravel_index(np.where(finite > 0, finite, np.inf).argmin(), table.shape)] += parts * finite.max()
    value.const_value = ir.tensor(table, name=value.name)
    result = fx.verify(model, against=module, inputs={"x": f"{dtype}[batch,8,8]"}, runtimes=["ort-cpu"])
    return [each for each in result.weights if each.differing]


def test_a_table_that_sums_make_may_be_off_as_another_processor_adds() -> None:
    assert moved_by(6 * 2.0**-23, OfPositions()) == []
    (wrong,) = moved_by(1e-5, OfPositions())
    assert wrong.differing == 1
    # An infinity in the table widens nothing.
    assert moved_by(0, OfPositions(True, torch.float16), "float16") == []
    assert moved_by(0.1, OfPositions(True, torch.float16), "float16")


def test_integers_and_masks_are_compared_exactly() -> None:
    module = Tables()
    buffers = {name: buffer.numpy() for name, buffer in module.named_buffers()}
    index, causal = buffers["relative_position_index"], buffers["causal"]
    right = {"index": index.reshape(-1), "mask": np.where(causal, 0, -np.inf).astype(np.float32), "turned": ~causal}
    found = compare_weights(graph(**right, ids=buffers["position_ids"]), module)
    assert [each.differing for each in found] == [0, 0, 0, 0]
    swapped, off_by_one = index[[1, 0, *range(2, 49)]], np.tril(np.ones((24, 24), bool), 1)
    found = compare_weights(graph(index=swapped, mask=off_by_one), module)
    assert [(each.parameter, each.differing > 10) for each in found] == [
        ("relative_position_index", True),
        ("causal", True),
    ]
    window = causal & ~np.tril(np.ones((24, 24), bool), -6)
    axes = np.array([0, 2, 1, 3])
    assert compare_weights(graph(window=window, axes=axes), module) == ()


def test_constants_and_parameters_without_a_counterpart_are_named() -> None:
    module, other = linear((6, 10), (10, 6)), linear((6, 10), (10, 6))
    for parameter in other.parameters():
        parameter.data.normal_()
    stored = {"a": numbers(module, "0.weight"), "b": numbers(other, "1.weight"), "axes": np.array([0, 1])}
    found = weights.compare_weights(graph(**stored, ones=np.ones(16, np.float32)), module)
    assert [each.parameter for each in found.traced] == ["0.weight"]
    assert [(each.name, each.type) for each in found.untraced] == [("b", "float32[6,10]")]
    assert [each.name for each in found.unheld] == ["0.bias", "1.weight", "1.bias"]
    line = verdict.foreign_weights(found.untraced, found.unheld)
    assert line is not None
    assert line.startswith("'b' float32[6,10] matches no parameter, and no constant holds parameter '1.weight'")
    assert verdict.foreign_weights(found.untraced, ()) is None


TABLE = np.random.default_rng(0).standard_normal((130, 16)).astype(np.float32)


def exchanged(array: Array, one: int, other: int) -> Array:
    rows = np.arange(len(array))
    rows[[one, other]] = other, one
    return array[rows]


@pytest.mark.parametrize(
    "cut",
    [
        lambda table: table[3:103],
        lambda table: table[1::3],
        lambda table: np.concatenate([table[2:42], table[77:90]]),
        lambda table: table[5:105].T,
        lambda table: (table[3:103, 0] * 1000).astype(np.int64),
    ],
    ids=["slice", "every third", "two slices", "transposed", "integers"],
)
def test_exchanged_rows_of_a_table_that_was_cut(cut: Callable[[Array], Array]) -> None:
    module = nn.Module()
    module.table = nn.Parameter(torch.tensor(TABLE))
    module.register_buffer("numbers", torch.tensor((TABLE[:, 0] * 1000).astype(np.int64)))
    assert [w.differing for w in compare_weights(graph(cut=cut(TABLE)), module)] == [0]
    wrong = np.ascontiguousarray(cut(exchanged(TABLE, 10, 16)))
    (found,) = compare_weights(graph(cut=wrong), module)
    assert found.differing == (2 if wrong.ndim == 1 else 32)


def test_rows_in_an_order_of_their_own_are_no_exchange() -> None:
    module = nn.Module()
    module.table = nn.Parameter(torch.tensor(TABLE))
    blocks = np.concatenate([TABLE[:40], TABLE[80:120], TABLE[40:80]])
    for rows in (TABLE[np.random.default_rng(0).permutation(130)][:100], blocks, TABLE[np.abs(np.arange(-40, 40))]):
        assert [w.differing for w in compare_weights(graph(rows=rows), module)] == [0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_parameter_that_holds_nan_is_itself(dtype: torch.dtype) -> None:
    module = nn.Module()
    stored = torch.arange(32, dtype=torch.float32).square().reshape(4, 8)
    stored[1, 2] = torch.nan
    module.register_buffer("table", stored.to(dtype))
    held = ir.tensor(stored.to(dtype), name="table").numpy()
    (same,) = compare_weights(graph(table=held), module)
    assert (same.parameter, same.differing) == ("table", 0)
    wrong = held.copy()
    wrong[2, 3] *= 2
    (other,) = compare_weights(graph(table=wrong), module)
    assert (other.parameter, other.differing, other.worst_index) == ("table", 1, (2, 3))


def test_an_infinity_makes_no_two_tables_alike() -> None:
    one = np.array([-np.inf, *range(1, 32)])
    assert traced.distance(np.array([-np.inf, *range(90, 121)]), one) > traced.NEAR


@pytest.mark.parametrize("start", [2**62, -(2**63), 0])
def test_one_wrong_integer_of_a_table_is_found_at_any_size(start: int) -> None:
    module = nn.Module()
    module.register_buffer("table", start + torch.arange(40) ** 2)
    held: Array = module.get_buffer("table").numpy()
    assert found(module, held) == ("table", "as it is", 0)
    wrong = held.copy()
    wrong[7] += 1
    (other,) = compare_weights(graph(table=wrong), module)
    assert (other.parameter, other.differing, other.worst_index) == ("table", 1, (7,))
    # A budget is for rounding, which integers have none of.
    assert verdict.weight_failure(other, Tolerances(relative_l2=0.5)) is not None


@pytest.mark.parametrize("start", [2**62, -(2**63), 0])
def test_large_integers_are_no_setting(start: int) -> None:
    assert not is_setting(start + np.arange(20) ** 2)
    assert is_setting(start + np.arange(20))
    assert not is_setting(np.array([250, 4, 14, 24] * 5, np.uint8))
