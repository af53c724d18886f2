"""Which initializers are taken for which parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn
from torch.nn.utils import prune

import ffn_export as fx
from ffn_export.parity.checks import weights
from ffn_export.parity.judging import verdict
from tests.parity.checks.held_constants import Array, compare_weights, found, graph, linear, numbers


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


def test_a_computed_weight_is_not_the_parameter_that_most_of_it_equals() -> None:
    """Before training, dividing by a weight's norm and multiplying by it changes a few elements by a rounding."""
    torch.manual_seed(0)
    module = torch.nn.utils.parametrizations.weight_norm(nn.Linear(64, 32))
    stored = numbers(module, "parametrizations.weight.original1").copy()
    computed = module.weight.detach().numpy()
    other = np.random.default_rng(0).random(stored.shape) < 0.05
    stored[other] = np.nextafter(computed[other], np.inf)
    assert (stored == numbers(module, "parametrizations.weight.original1")).mean() > 0.9
    assert found(module, stored) == ("weight", "as it is", 0)
    stored[3, 3] *= 1.001
    assert found(module, stored)[2] >= 1


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
