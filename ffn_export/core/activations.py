"""Table of activations: one record holds everything that the package knows about an activation.

The reference modules, the NumPy twin, the fusion rules, the reports and the nodes of native kernels read it. To add
an activation, add its formula and its record here; CONTRIBUTING.md has an example. Importing this module
does not import torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ffn_export.core.formula import UNARY, Call, X, calls, parse

if TYPE_CHECKING:
    from torch import Tensor

FloatArray = NDArray[np.float64]
Function = Callable[[ArrayLike], FloatArray]


@dataclass(frozen=True)
class Activation:
    """An activation.

    Attributes:
        name: Name in the reference modules, in reports and in nodes of native kernels.
        operators: Operators that compute the activation: standard ones by name, others as ``domain::Name``.
            ``Gelu:tanh`` is ``Gelu`` with ``approximate="tanh"``. ONNX's schemas say in which opset each was added.
        formula: The activation in standard operators if no single one computes it, as fused graphs have it:
            ``x * Sigmoid(x)**2``. :mod:`ffn_export.core.formula` says what it may have.
        spelling: Rule in ``fusion/canonicalise``, as ``mish.Mish``, if exporters decompose the operator.
            The rules of ``Gelu`` and ``Swish`` are in ``fusion/targets.py``: targets write different operators.
        torch: Name of the class in ``torch.nn``, or the formula in methods of ``Tensor``. None for an activation
            that is only recognised in graphs.
        constants: Arguments of that class; the NumPy formula holds for these only.
        numpy: Formula in NumPy, in float64. Required if ``torch`` is given; the two share no code.
        aliases: Names in Hugging Face configurations (``transformers.activations.ACT2FN``).
        alpha: Default of the operators' attribute ``alpha`` in ONNX, whatever the module has; None if they have none.
        outlined: Whether a node of native kernels may name it: if ``native/src/provider/contract.cpp`` lists it.
        in_fused_gemm: Whether ``com.microsoft::FusedGemm`` has a kernel for it.
        measured_split: Whether the costs of its feed-forward with a split hidden layer are measured.
    """

    name: str
    operators: tuple[str, ...] = ()
    formula: str | None = None
    spelling: str | None = None
    torch: str | Callable[[Tensor], Tensor] | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    numpy: Function | None = None
    aliases: tuple[str, ...] = ()
    alpha: float | None = None
    outlined: bool = False
    in_fused_gemm: bool = False
    measured_split: bool = False

    def __post_init__(self) -> None:
        if not (self.operators or self.formula):
            raise ValueError(f"activation {self.name!r} names no operator and has no formula")
        if self.formula:
            parse(self.formula)
        if self.torch is not None and self.numpy is None:
            raise ValueError(f"activation {self.name!r} has torch and no numpy, the formula of its twin")

    @property
    def keys(self) -> tuple[tuple[str, str], ...]:
        """Operators as ``(domain, name)``."""
        split = (each.rpartition("::") for each in self.operators)
        return tuple((domain, name.partition(":")[0]) for domain, _, name in split)

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        """Operators of the formula with one input as ``(domain, name)``."""
        return tuple(("", call.operator) for call in self._calls if call.operator in UNARY)

    @property
    def after_product(self) -> tuple[tuple[str, str], ...]:
        """The operators that read the product before the activation, if nothing else in it does."""
        if not self.formula:
            return self.keys
        reading = [call.operator for call in self._calls for each in call.inputs if each == X]
        return tuple(("", name) for name in reading if len(reading) == 1 and name in UNARY)

    @property
    def inner(self) -> tuple[str, ...]:
        """The activations in the formula."""
        return tuple(call.operator for call in self._calls if call.operator.islower())

    @property
    def _calls(self) -> tuple[Call, ...]:
        return tuple(calls(parse(self.formula))) if self.formula else ()


def by_name(activations: Iterable[Activation]) -> Mapping[str, Activation]:
    """Return activations by name.

    Raises:
        ValueError: If a name, an operator or a formula stands for two of them, or a formula names one that no operator
            computes.
    """
    table: dict[str, Activation] = {}
    taken: dict[object, str] = {}
    for each in activations:
        known: dict[object, str] = {what: what for what in (each.name, *each.aliases, *each.operators)}
        known |= {parse(each.formula): each.formula} if each.formula else {}
        for what, text in known.items():
            if what in taken:
                raise ValueError(f"{text!r} stands for two activations, {taken[what]!r} and {each.name!r}: keep one")
            taken[what] = each.name
        table[each.name] = each
    for each in table.values():
        for name in each.inner:
            if name not in table or not table[name].operators:
                raise ValueError(f"{name!r} in the formula of {each.name!r} is no activation of a single operator")
    return MappingProxyType(table)


def to_float64(x: ArrayLike) -> FloatArray:
    """Return an array in float64."""
    return np.asarray(x, dtype=np.float64)


_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def sigmoid(x: ArrayLike) -> FloatArray:
    """Return 1 / (1 + exp(-x)), with an exponential that never overflows."""
    x = to_float64(x)
    decay = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, decay) / (1.0 + decay)


def softplus(x: ArrayLike) -> FloatArray:
    """Return log(1 + exp(x)), with an exponential that never overflows."""
    x = to_float64(x)
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def relu(x: ArrayLike) -> FloatArray:
    """Return max(x, 0)."""
    return np.maximum(to_float64(x), 0.0)


def gelu(x: ArrayLike) -> FloatArray:
    """Return x * Phi(x), Phi the normal distribution; Hendrycks and Gimpel 2016.

    Phi(x) is erfc(-x / sqrt 2) / 2: the usual form with 1 + erf cancels in the left tail.
    """
    x = to_float64(x)
    phi: FloatArray = 0.5 * _erfc(-x / math.sqrt(2.0))
    return x * phi


def gelu_tanh(x: ArrayLike) -> FloatArray:
    """Return 0.5 x (1 + tanh(u)), u = sqrt(2 / pi) (x + 0.044715 x^3); Hendrycks and Gimpel 2016.

    Half of 1 + tanh(u) is sigmoid(2 u), which does not cancel in the left tail.
    """
    x = to_float64(x)
    return x * sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3))


def quick_gelu(x: ArrayLike) -> FloatArray:
    """Return x * sigmoid(1.702 x); Hendrycks and Gimpel 2016, section 2, used by CLIP."""
    x = to_float64(x)
    return x * sigmoid(1.702 * x)


def silu(x: ArrayLike) -> FloatArray:
    """Return x * sigmoid(x), also called Swish."""
    x = to_float64(x)
    return x * sigmoid(x)


def relu2(x: ArrayLike) -> FloatArray:
    """Return max(x, 0)^2; So et al. 2021, "Primer: Searching for Efficient Transformers for Language Modeling"."""
    return np.square(relu(x))


def tanh(x: ArrayLike) -> FloatArray:
    """The hyperbolic tangent."""
    return np.tanh(to_float64(x))


def elu(x: ArrayLike) -> FloatArray:
    """Return x above zero, exp(x) - 1 below; Clevert et al. 2015 with alpha 1."""
    x = to_float64(x)
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0.0)))


def mish(x: ArrayLike) -> FloatArray:
    """Return x * tanh(softplus(x)); Misra 2019."""
    x = to_float64(x)
    return x * np.tanh(softplus(x))


def hardswish(x: ArrayLike) -> FloatArray:
    """Return x * min(max(x + 3, 0), 6) / 6; Howard et al. 2019."""
    x = to_float64(x)
    return x * np.clip(x + 3.0, 0.0, 6.0) / 6.0


def leaky_relu(x: ArrayLike) -> FloatArray:
    """Return x above zero, 0.01 x below; Maas et al. 2013."""
    x = to_float64(x)
    return np.where(x > 0, x, 0.01 * x)


def _quick_gelu(x: Tensor) -> Tensor:
    return x * (1.702 * x).sigmoid()


def _relu2(x: Tensor) -> Tensor:
    return x.relu().square()


_ALL = (
    Activation("relu", ("Relu",), torch="ReLU", numpy=relu, in_fused_gemm=True, measured_split=True, outlined=True),
    Activation(
        "gelu",
        ("Gelu", "com.microsoft::Gelu", "com.microsoft::BiasGelu"),
        torch="GELU",
        constants={"approximate": "none"},
        numpy=gelu,
        measured_split=True,
        outlined=True,
    ),
    Activation(
        "gelu_tanh",
        ("Gelu:tanh", "com.microsoft::FastGelu"),
        torch="GELU",
        constants={"approximate": "tanh"},
        numpy=gelu_tanh,
        aliases=("gelu_new", "gelu_fast", "gelu_pytorch_tanh"),
        measured_split=True,
        outlined=True,
    ),
    # Each slope of Swish and QuickGelu has its own name; any other is ``swish(alpha)`` in a report.
    Activation(
        "quick_gelu", ("com.microsoft::QuickGelu",), torch=_quick_gelu, numpy=quick_gelu, alpha=1.702, outlined=True
    ),
    Activation(
        "silu", ("Swish",), torch="SiLU", numpy=silu, aliases=("swish",), alpha=1.0, measured_split=True, outlined=True
    ),
    Activation("relu2", formula="Relu(x) ** 2", torch=_relu2, numpy=relu2, outlined=True),
    Activation("tanh", ("Tanh",), torch="Tanh", numpy=tanh, in_fused_gemm=True, outlined=True),
    Activation(
        "elu", ("Elu",), torch="ELU", constants={"alpha": 1.0}, numpy=elu, alpha=1.0, in_fused_gemm=True, outlined=True
    ),
    Activation("softplus", ("Softplus",), spelling="softplus.Softplus", outlined=True),
    Activation("mish", ("Mish",), spelling="mish.Mish", torch="Mish", numpy=mish, outlined=True),
    Activation(
        "hardswish", ("HardSwish",), spelling="hard_swish.HardSwish", torch="Hardswish", numpy=hardswish, outlined=True
    ),
    Activation(
        "leaky_relu",
        ("LeakyRelu",),
        torch="LeakyReLU",
        constants={"negative_slope": 0.01},
        numpy=leaky_relu,
        alpha=0.01,
        in_fused_gemm=True,
        outlined=True,
    ),
    Activation("sigmoid", ("Sigmoid",), in_fused_gemm=True, outlined=True),
    Activation("softsign", ("Softsign",), outlined=True),
    Activation("selu", ("Selu",)),
    Activation("celu", ("Celu",)),
    Activation("hardsigmoid", ("HardSigmoid",)),
    Activation("thresholded_relu", ("ThresholdedRelu",)),
    Activation("clip", ("Clip",)),
)
TABLE = by_name(_ALL)
# Operators as ``(domain, name)``: those that compute an activation, those of formulas, which alone are none, and those
# that alone read the product in a reference module.
OPERATORS = frozenset(key for each in _ALL for key in each.keys)
LINKS = frozenset(key for each in _ALL for key in each.links)
AFTER_PRODUCTS = frozenset(key for each in _ALL if each.torch is not None for key in each.after_product)
