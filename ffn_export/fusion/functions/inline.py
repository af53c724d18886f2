"""Inline model-local functions that may contain a site.

A function body has no types, and all calls share it, so a proof for one call need not hold for another. Inlined, each
call is a separate site. A function that defines a runtime's operator, such as
``com.microsoft::SkipLayerNormalization``, stands for that operator and is not inlined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass

from ffn_export.core import function_calls
from ffn_export.core.quiet import quiet
from ffn_export.core.strict import expose_own
from ffn_export.fusion.functions import portable
from ffn_export.fusion.functions.contract import DOMAIN

_RUNTIME_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
# Every feed-forward and norm has at least one of these operators.
_TELLING = frozenset(
    {"MatMul", "Gemm", "ReduceMean", "LayerNormalization", "RMSNormalization", "Erf", "Gelu", "Sigmoid"}
)
_TELLING_BESIDE_OTHERS = frozenset(
    {"Tanh", "Softplus", "Clip", "HardSigmoid", "Relu", "Exp", "ReduceSum", "ReduceSumSquare"}
)
# Largest number of nodes after inlining, in all or for each node of the file; a larger model keeps its functions.
_MOST_NODES = 2_000
_MOST_FOR_EACH = 64
_DEEPEST = 200  # calls within calls: each lengthens the names inside
_MOST_TRIALS = 64  # each copies the model

_Key = function_calls.Key


def inlined(model: ir.Model) -> ir.Model:
    """Inline every function that may contain a site, in a copy.

    Return the model itself if no function may, or if inlining would give too many nodes. A function that cannot be
    inlined stays.
    """
    return _inlined(model, _may_hold_a_site(model))


def written_out(model: ir.Model) -> ir.Model:
    """Inline every function that this package wrote, in a copy.

    Return the model itself if it has none. A function that cannot be inlined stays.
    """
    return _inlined(model, {key for key, f in model.functions.items() if key[0] == DOMAIN or portable.is_own(f)})


def all_inlined(model: ir.Model) -> ir.Model:
    """Inline every function that can be inlined, in a copy; return the model itself if it has none."""
    return _inlined(model, set(model.functions))


def computed(model: ir.Model) -> ir.Model:
    """Inline every function but those that define a runtime's operator, in a copy: the nodes that runtimes compute.

    Return the model itself if it has none. A function that cannot be inlined stays.
    """
    return _inlined(model, {key for key in model.functions if not is_of_runtime(key)})


def is_of_runtime(key: _Key) -> bool:
    """Whether a function is of a domain of which runtimes have kernels, and ignore bodies."""
    return key[0] in _RUNTIME_DOMAINS


def _inlined(model: ir.Model, keys: set[_Key]) -> ir.Model:
    chosen = keys - set(_partial_calls(model)) - set(_of_other_opsets(model))
    return _most(model, sorted(chosen), [_MOST_TRIALS]) if chosen and _is_small(model) else model


def _is_small(model: ir.Model) -> bool:
    """Whether a model has a usual size with all functions inlined: a few lines can expand to 2^60 nodes."""
    try:
        whole = function_calls.written_out(model)
    except ValueError:  # one calls itself
        return False
    of_file = len(model.graph) + sum(map(len, model.functions.values()))
    return whole.nodes <= max(_MOST_NODES, _MOST_FOR_EACH * of_file) and whole.depth <= _DEEPEST


def _most(model: ir.Model, keys: Sequence[_Key], left: list[int]) -> ir.Model:
    """Inline functions. If that fails, inline each half of them, so that only a failing function stays."""
    if not left[0]:
        return model
    left[0] -= 1
    whole = _tried(model, set(keys))
    if whole is not None or len(keys) < 2:
        return whole or model
    half = len(keys) // 2
    return _most(_most(model, keys[:half], left), keys[half:], left)


def _of_other_opsets(model: ir.Model) -> Iterator[_Key]:
    """Yield the functions that import other opsets than the model, and those that they call under these opsets."""
    for key, function in model.functions.items():
        if any(
            model.opset_imports.get(domain, version) != version for domain, version in function.opset_imports.items()
        ):
            yield key
            yield from (node.op_identifier() for node in function.all_nodes())


def _tried(model: ir.Model, keys: set[_Key]) -> ir.Model | None:
    """Inline functions in a copy; return None if one of them fails."""
    if not keys:
        return model
    try:
        trial = model.clone()  # fails where a function reads a value that it does not have
        with quiet():
            InlinePass(criteria=lambda function: function.identifier() in keys)(trial)
    except Exception as error:  # noqa: BLE001 - whatever the pass raises of a function
        expose_own(error)
        return None
    return trial


def _partial_calls(model: ir.Model) -> Iterator[_Key]:
    """Yield the functions with a call that leaves out an input that the body reads: only the body handles that."""
    inside = (node for function in model.functions.values() for node in function.all_nodes())
    for node in (*model.graph.all_nodes(), *inside):
        function = model.functions.get(node.op_identifier())
        if function is None:
            continue
        given = [*node.inputs, *[None] * (len(function.inputs) - len(node.inputs))]
        if any(value is None and formal.uses() for value, formal in zip(given, function.inputs, strict=False)):
            yield node.op_identifier()


def _may_hold_a_site(model: ir.Model) -> set[_Key]:
    """Return the functions that may contain a site: those with a telling operator, and their callers."""
    called = function_calls.callees(model)
    callers: dict[_Key, list[_Key]] = defaultdict(list)
    for key, calls in called.items():
        for callee in calls:
            callers[callee].append(key)
    waiting = [key for key, function in model.functions.items() if _is_telling(function)]
    found: set[_Key] = set()
    while waiting:
        key = waiting.pop()
        if key not in found and not is_of_runtime(key):
            found.add(key)
            waiting += callers[key]
    return found


def _is_telling(function: ir.Function) -> bool:
    names = {node.op_type for node in function.all_nodes()}
    return bool(names & _TELLING or (names & _TELLING_BESIDE_OTHERS and len(function) > 1))
