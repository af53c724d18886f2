"""Rules for the elements of small integer tensors: sizes on their way from a Shape to a Reshape."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import onnx_ir as ir

from ffn_export.fusion.shape_proofs.facts import MOST_ELEMENTS, Contents, Facts, View, at, product
from ffn_export.fusion.shape_proofs.moving import slices, span
from ffn_export.fusion.shape_proofs.size import ONE, ZERO, Size


def _shape(view: View) -> Contents | None:
    x = view.known()
    first, last = span(view, len(x))
    return x[first:last]


def _cast(view: View) -> Contents | None:
    to = view.integer("to", 0)
    return view.contents() if to in (ir.DataType.INT64, ir.DataType.INT32) else None


def _gathered(view: View) -> Contents | None:
    data, picked = view.contents(0), view.integers(1)
    if data is None or picked is None or len(view.shape(0) or ()) != 1:
        return None
    return tuple(data[at(index, len(data))] for index in picked)


def _sliced(view: View) -> Contents | None:
    data, (starts, ends, _, steps) = view.contents(), slices(view)
    numbers = [None if not each or each[0] is None else each[0].constant for each in (starts, ends, steps)]
    if data is None or len(view.shape() or ()) != 1 or None in numbers or numbers[2] == 0:
        return None
    return data[slice(*numbers)]


def _joined(view: View) -> Contents | None:
    joined = tuple(each for index in range(len(view.node.inputs)) for each in view.elements(index))
    return joined if len(joined) <= MOST_ELEMENTS else None


def _split(view: View, place: int) -> Contents | None:
    data, sizes = view.contents(), view.integers(1, "split")
    if data is None or not sizes or len(view.shape() or ()) != 1:
        return None
    start = sum(sizes[:place])
    return data[start : start + sizes[place]]


def _filled(view: View) -> Contents | None:
    target, value = view.contents(0), view.node.attributes.get("value")
    count = None if target is None or None in target else product([each for each in target if each is not None])
    if count is None or count.constant is None or not 0 <= count.constant <= MOST_ELEMENTS:
        return None
    if value is None:
        return None  # of floats
    tensor = value.as_tensor()
    return (Size.of(int(tensor.numpy().reshape(-1)[0])),) * count.constant if tensor.dtype.is_integer() else None


def _pairwise(compute: Callable[[Facts, Size, Size], Size | None]) -> Callable[[View], Contents | None]:
    def rule(view: View) -> Contents | None:
        a, b = view.elements(0), view.elements(1)
        if len(a) != len(b) and 1 not in (len(a), len(b)):
            return None
        count = max(len(a), len(b)) if a and b else 0
        pairs = zip(a * count if len(a) == 1 else a, b * count if len(b) == 1 else b, strict=True)
        return tuple(None if x is None or y is None else compute(view.facts, x, y) for x, y in pairs)

    return rule


def _quotient(facts: Facts, a: Size, b: Size) -> Size | None:
    """Return ``a / b``, which the standard rounds towards zero."""
    if b.constant is not None:
        return facts.floor(a, b.constant) if facts.is_at_least(a, 0) and b.constant > 0 else None
    return a.over(b)


def _remainder(_: Facts, a: Size, b: Size) -> Size | None:
    if a.constant is not None and b.constant is not None and a.constant >= 0 and b.constant > 0:
        return Size.of(a.constant % b.constant)
    return None


def _larger(facts: Facts, a: Size, b: Size) -> Size | None:
    return a if facts.is_at_least(a - b, 0) else b if facts.is_at_least(b - a, 0) else None


def _is_equal(facts: Facts, a: Size, b: Size) -> Size | None:
    if a == b:
        return ONE
    return ZERO if facts.is_at_least(a - b, 1) or facts.is_at_least(b - a, 1) else None


def _is_less(facts: Facts, a: Size, b: Size) -> Size | None:
    return ONE if facts.is_at_least(b - a, 1) else ZERO if facts.is_at_least(a - b, 0) else None


def _each(compute: Callable[[Size], Size]) -> Callable[[View], Contents | None]:
    return lambda view: tuple(None if each is None else compute(each) for each in view.elements())


def _chosen(view: View) -> Contents | None:
    parts = [view.elements(index) for index in range(3)]
    counts = set(map(len, parts))
    if len(counts - {1}) > 1:
        return None
    count = max(counts)
    condition, yes, no = (part * count if len(part) == 1 else part for part in parts)
    return tuple(None if c is None else y if c == ONE else n for c, y, n in zip(condition, yes, no, strict=True))


def _product_of_all(view: View) -> Contents | None:
    known = [each for each in view.elements() if each is not None]
    return (product(known),) if len(known) == len(view.elements()) and len(view.shape() or ()) <= 1 else None


def _range(view: View) -> Contents | None:
    numbers = [view.integers(index) for index in range(3)]
    if any(each is None or len(each) != 1 for each in numbers):
        return None
    start, limit, step = (each[0] for each in numbers if each is not None)
    found = range(start, limit, step)
    return tuple(map(Size.of, found)) if len(found) <= MOST_ELEMENTS else None


CONTENTS: Mapping[str, Callable[[View], Contents | None]] = {
    **dict.fromkeys(("Identity", "Unsqueeze", "Squeeze", "Reshape", "Flatten", "CastLike"), View.contents),
    "Shape": _shape,
    "Size": lambda view: (product(view.known()),),
    "Cast": _cast,
    "Gather": _gathered,
    "Slice": _sliced,
    "Concat": _joined,
    "ConstantOfShape": _filled,
    "Add": _pairwise(lambda _, a, b: a + b),
    "Sub": _pairwise(lambda _, a, b: a - b),
    "Mul": _pairwise(lambda _, a, b: a * b),
    "Div": _pairwise(_quotient),
    "Mod": _pairwise(_remainder),
    "Max": _pairwise(_larger),
    "Min": _pairwise(Facts.smaller),
    "Equal": _pairwise(_is_equal),
    "Less": _pairwise(_is_less),
    "Neg": _each(lambda each: -each),
    "Not": _each(lambda each: ONE - each),
    "Where": _chosen,
    "ReduceProd": _product_of_all,
    "Range": _range,
}


def contents_of(view: View, place: int) -> Contents | None:
    """Return the elements of an output of a standard operator, or None if they are not known.

    Sizes stay far below the largest int64, so none of these operations wraps around.
    """
    if view.node.op_type == "Split":
        return _split(view, place)
    rule = CONTENTS.get(view.node.op_type)
    found = None if rule is None else rule(view)
    return None if found is None or len(found) > MOST_ELEMENTS else found
