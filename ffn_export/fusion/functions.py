"""Model-local functions, inlined where a site may be inside.

A function's body has no types of its own and one body serves all its calls, so what is proved of one call
need not hold for another. Inlined, each call is a site of its own. A function that gives an operator of a
runtime a body, such as ``com.microsoft::SkipLayerNormalization``, stands for that operator and stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from ffn_export.exporter.quiet import quiet
from ffn_export.fusion import portable_functions
from ffn_export.strict import expose_own

DOMAIN = "ai.ffn_export"

_RUNTIME_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
# What every feed-forward and norm has at least one of, by itself or as a part of a formula.
_TELLING = frozenset(
    {"MatMul", "Gemm", "ReduceMean", "LayerNormalization", "RMSNormalization", "Erf", "Gelu", "Sigmoid"}
)
_TELLING_BESIDE_OTHERS = frozenset(
    {"Tanh", "Softplus", "Clip", "HardSigmoid", "Relu", "Exp", "ReduceSum", "ReduceSumSquare"}
)
_Key = tuple[str, str, str]


def inlined(model: ir.Model) -> ir.Model:
    """Return the model with every function inlined whose body holds what a site is made of.

    It is the model itself where there is none. A function that cannot be inlined stays one.
    """
    return _inlined(model, {key for key in model.functions if _may_hold_a_site(model, key)})


def written_out(model: ir.Model) -> ir.Model:
    """Return the model with every function inlined that this package wrote.

    It is the model itself where there is none. A function that cannot be inlined stays one.
    """
    return _inlined(
        model, {key for key, f in model.functions.items() if key[0] == DOMAIN or portable_functions.is_own(f)}
    )


def all_inlined(model: ir.Model) -> ir.Model:
    """Return the model with every function inlined that can be; it is the model itself where there is none."""
    return _inlined(model, set(model.functions))


def _inlined(model: ir.Model, keys: set[_Key]) -> ir.Model:
    return _most(model, sorted(keys - set(_partial_calls(model)) - set(_of_other_opsets(model))))


def _most(model: ir.Model, keys: Sequence[_Key]) -> ir.Model:
    """Inline functions; where that fails, each half of them, so that one that cannot be inlined stays alone."""
    whole = _tried(model, set(keys))
    if whole is not None or len(keys) < 2:
        return whole or model
    half = len(keys) // 2
    return _most(_most(model, keys[:half]), keys[half:])


def _of_other_opsets(model: ir.Model) -> Iterator[_Key]:
    """Yield the functions that import other versions than the model, and what they call: it is read under theirs."""
    for key, function in model.functions.items():
        if any(
            model.opset_imports.get(domain, version) != version for domain, version in function.opset_imports.items()
        ):
            yield key
            yield from (node.op_identifier() for node in function.all_nodes())


def _tried(model: ir.Model, keys: set[_Key]) -> ir.Model | None:
    """Inline functions in a copy; None where one of them cannot be."""
    if not keys:
        return model
    trial = model.clone()
    try:
        with quiet():
            InlinePass(criteria=lambda function: function.identifier() in keys)(trial)
    except Exception as error:  # noqa: BLE001 - whatever the pass raises of a function
        expose_own(error)
        return None
    return trial


def _partial_calls(model: ir.Model) -> Iterator[_Key]:
    """Yield the functions that a call leaves an input out of, which the body reads: what that means is the body's."""
    inside = (node for function in model.functions.values() for node in function.all_nodes())
    for node in (*model.graph.all_nodes(), *inside):
        function = model.functions.get(node.op_identifier())
        if function is None:
            continue
        given = [*node.inputs, *[None] * (len(function.inputs) - len(node.inputs))]
        if any(value is None and formal.uses() for value, formal in zip(given, function.inputs, strict=False)):
            yield node.op_identifier()


def _may_hold_a_site(model: ir.Model, key: _Key, seen: frozenset[_Key] = frozenset()) -> bool:
    function = model.functions.get(key)
    if function is None or key in seen or key[0] in _RUNTIME_DOMAINS:
        return False
    operators = {node.op_identifier() for node in function.all_nodes()}
    names = {name for _, name, _ in operators}
    return bool(names & _TELLING or (names & _TELLING_BESIDE_OTHERS and len(function) > 1)) or any(
        _may_hold_a_site(model, operator, seen | {key}) for operator in operators
    )
