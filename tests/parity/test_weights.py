"""Which initialisers are taken for which parameters."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import torch
from numpy.typing import NDArray
from torch import nn

from ffn_export.parity.weights import compare_weights

Array = NDArray[np.float32]


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
