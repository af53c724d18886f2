"""Shape rules of operators that move, slice and concatenate data without computing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ffn_export.fusion.shape_proofs.facts import Contents, Rule, Shape, View, at, product
from ffn_export.fusion.shape_proofs.size import ONE, ZERO, Size
from ffn_export.fusion.views import ints_of

_TO_THE_END = 2**31 - 1  # exporters write the largest int32 or int64; no axis is as long


def _transposed(view: View) -> Shape | None:
    x = view.known()
    order = ints_of(view.node, "perm") or tuple(reversed(range(len(x))))
    return tuple(x[at(axis, len(x))] for axis in order)


def _reshaped(view: View) -> Shape | None:
    target = view.contents(1)
    if target is None:
        sizes = view.shape(1)
        count = sizes[0].constant if sizes is not None and len(sizes) == 1 else None
        return None if count is None else view.unknown(count)
    return reshape(view, view.shape(), target, allow_zero=bool(view.integer("allowzero", 0)))


def reshape(view: View, x: Shape | None, target: Contents, *, allow_zero: bool) -> Shape:
    """Return the shape of a Reshape.

    An entry of 0 means 0 with ``allowzero``, and the size of the input's axis at this position without. A computed
    entry may be 0 at run time, so it is proven only if both meanings give the same size, or the copied one fails.
    """
    total = None if x is None else product(x)
    result: list[Size] = []
    hole = None
    for place, entry in enumerate(target):
        own = None if x is None or place >= len(x) else x[place]
        if entry == Size.of(-1):
            hole, size = place, ONE
        elif entry == ZERO and not allow_zero:
            size = own or view.facts.unknown()
        elif entry is None or not view.facts.is_at_least(entry, 0):
            size = view.facts.unknown()  # it may be -1, too
        elif view.facts.is_at_least(entry, 1) or allow_zero:
            size = entry
        else:
            others = [each for index, each in enumerate(target) if index != place]
            size = _copied_where_zero(view, entry, own, others, total)
        result.append(size)
    if hole is not None:
        # The runtime requires that no other entry is 0, so the division is exact.
        left = None if total is None else total.over(product(result))
        result[hole] = view.facts.unknown() if left is None else left
    return tuple(result)


def _copied_where_zero(
    view: View, entry: Size, own: Size | None, others: list[Size | None], total: Size | None
) -> Size:
    """Return the size of an axis whose entry copies the input's axis ``own`` if it is 0."""
    if own is not None and own.over(entry) is not None:
        return entry  # if the entry is 0, so is the copied size
    fixed = all(each is not None and each.constant is not None and each.constant > 0 for each in others)
    if fixed and total is not None and total.over(entry) is not None:
        return entry  # if the entry is 0, the input has no elements, and no other axis can be 0
    partner = None if own is None else view.facts.partners.get(str(own))
    cannot_widen = partner is not None and partner.size == entry and not partner.unless_zero
    if cannot_widen or (own is not None and view.facts.is_at_least(own, 2)):
        return view.facts.partner(entry)
    return view.facts.partner(entry, unless_zero=True)


def _flattened(view: View) -> Shape | None:
    x = view.shape()
    if x is None:
        return view.unknown(2)
    axis = view.integer("axis", 1)
    axis = len(x) if axis == len(x) else at(axis, len(x))
    return (product(x[:axis]), product(x[axis:]))


def _squeezed(view: View) -> Shape | None:
    """Squeeze: without ``axes`` every axis of size 1 is removed, and an unknown size may be 1."""
    x, axes = view.shape(), view.integers(1, "axes")
    if x is None or axes is None:
        return None
    if not axes:
        known = all(size.constant is not None or view.facts.is_at_least(size, 2) for size in x)
        return tuple(size for size in x if size != ONE) if known else None
    dropped = {at(axis, len(x)) for axis in axes}
    return tuple(size for axis, size in enumerate(x) if axis not in dropped)


def _unsqueezed(view: View) -> Shape | None:
    x, axes = view.shape(), view.integers(1, "axes")
    if x is None or axes is None:
        return None
    rank = len(x) + len(axes)
    added, rest = {at(axis, rank) for axis in axes}, iter(x)
    return tuple(ONE if axis in added else next(rest) for axis in range(rank))


def _expanded(view: View) -> Shape | None:
    target = view.elements(1)
    sizes = [view.facts.unknown() if each is None or not view.facts.is_at_least(each, 0) else each for each in target]
    return view.broadcast((view.shape(), tuple(sizes)))


def _tiled(view: View) -> Shape | None:
    x, repeats = view.known(), view.contents(1)
    if repeats is None or len(repeats) != len(x):
        return view.unknown(len(x))
    return tuple(view.facts.unknown() if n is None else size * n for size, n in zip(x, repeats, strict=True))


def _joined(view: View) -> Shape | None:
    shapes = [shape for index in range(len(view.node.inputs)) if (shape := view.shape(index)) is not None]
    if len(shapes) != len(view.node.inputs) or not shapes or len({len(shape) for shape in shapes}) != 1:
        return None
    axis = at(view.integer("axis", 0), len(shapes[0]))
    result = []
    for place, sizes in enumerate(zip(*shapes, strict=True)):
        if place == axis:
            result.append(sum(sizes, start=ZERO))
        else:
            result.append(_alike(view, sizes))
    return tuple(result)


def _alike(view: View, sizes: Sequence[Size]) -> Size:
    """Return the common size of axes that must be equal: a number if one is known, else the simplest size."""
    numbers = {size for size in sizes if size.constant is not None}
    if len(numbers) > 1:
        return view.facts.unknown()
    return min(numbers or sizes, key=lambda size: (not view.facts.is_own(size), len(size.terms), str(size)))


def _split(view: View) -> list[Shape | None]:
    x, parts = view.known(), len(view.node.outputs)
    axis = at(view.integer("axis", 0), len(x))
    sizes = view.integers(1, "split")
    if sizes:
        lengths = [Size.of(size) for size in sizes]
    elif sizes is None:
        lengths = list(view.unknown(parts))
    else:
        lengths = _parts(view, x[axis], parts)
    return [(*x[:axis], length, *x[axis + 1 :]) for length in lengths]


def _parts(view: View, size: Size, parts: int) -> list[Size]:
    """Return the lengths of equal parts; the last part is the rest."""
    known = size.constant
    if known is not None:
        length = -(-known // parts)
        return [Size.of(max(min(length, known - index * length), 0)) for index in range(parts)]
    exact = size.over(Size.of(parts))
    return [exact] * parts if exact is not None else list(view.unknown(parts))


def _sliced(view: View) -> Shape | None:
    x = view.known()
    starts, ends, axes, steps = slices(view)
    if starts is None or ends is None or axes is None or steps is None:
        return view.unknown(len(x))
    result = list(x)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        place = at(axis, len(x))
        result[place] = _cut(view, x[place], start, end, step)
    return tuple(result)


def slices(view: View) -> tuple[Contents | None, Contents | None, tuple[int, ...] | None, Contents | None]:
    """Return starts, ends, axes and steps of a Slice."""
    if view.opset < 10:
        starts, ends = (tuple(map(Size.of, ints_of(view.node, name))) for name in ("starts", "ends"))
        axes = ints_of(view.node, "axes") or tuple(range(len(starts)))
        return starts, ends, axes, (ONE,) * len(starts)
    first, last = view.contents(1), view.contents(2)
    count = 0 if first is None else len(first)
    given = view.integers(3) if view.has(3) else tuple(range(count))
    return first, last, given, view.contents(4) if view.has(4) else (ONE,) * count


def _cut(view: View, size: Size, start: Size | None, end: Size | None, step: Size | None) -> Size:
    """Return the length of a slice of an axis; bounds beyond its ends are clamped."""
    if start is None or end is None or step is None:
        return view.facts.unknown()
    known = size.constant, start.constant, end.constant, step.constant
    if all(each is not None for each in known) and step != ZERO:
        numbers = [each for each in known if each is not None]
        return Size.of(len(range(*slice(numbers[1], numbers[2], numbers[3]).indices(numbers[0]))))
    length = _between(view, size, *(_from_front(view, each, size) for each in (start, end)))
    if step == ONE:
        return length
    by = step.constant
    return view.facts.floor(length + Size.of(by - 1), by) if by is not None and by > 0 else view.facts.unknown()


def _between(view: View, size: Size, first: Size | None, last: Size | None) -> Size:
    """Return the number of elements between two bounds, clamped to the end."""
    if (
        first is None
        or last is None
        or not view.facts.is_at_least(first, 0)
        or not view.facts.is_at_least(last - first, 0)
    ):
        return view.facts.unknown()
    if view.facts.is_at_least(size - last, 0):
        return last - first
    return (view.facts.smaller(size, last) if first == ZERO else None) or view.facts.unknown()


def _from_front(view: View, bound: Size, size: Size) -> Size | None:
    """Return a bound counted from the front, or None if its sign is not known."""
    if bound.constant is not None and bound.constant >= _TO_THE_END:
        return size
    if view.facts.is_at_least(bound, 0):
        return bound
    return size + bound if bound.constant is not None and view.facts.is_at_least(size + bound, 0) else None


def _gathered(view: View) -> Shape | None:
    x, indices = view.known(0), view.known(1)
    axis = at(view.integer("axis", 0), len(x))
    return (*x[:axis], *indices, *x[axis + 1 :])


def _gathered_nd(view: View) -> Shape | None:
    x, indices = view.shape(0), view.shape(1)
    depth = indices[-1].constant if indices else None
    if x is None or not indices or depth is None:
        return None
    return (*indices[:-1], *x[view.integer("batch_dims", 0) + depth :])


def _padded(view: View) -> Shape | None:
    x = view.known()
    pads, axes = view.integers(1, "pads"), view.integers(3)
    if pads is None or axes is None:
        return view.unknown(len(x))
    places = [at(axis, len(x)) for axis in axes] if view.has(3) else list(range(len(x)))
    result = list(x)
    for index, place in enumerate(places):
        size = x[place] + Size.of(pads[index] + pads[index + len(places)])
        result[place] = size if view.facts.is_at_least(size, 0) else view.facts.unknown()
    return tuple(result)


def _shape(view: View) -> Shape | None:
    x = view.shape()
    if x is None:
        return view.unknown(1)
    first, last = span(view, len(x))
    return (Size.of(max(last - first, 0)),)


def span(view: View, rank: int) -> tuple[int, int]:
    """Return the first axis of a Shape and the axis after its last, clamped to the rank."""
    bounds = (view.integer("start", 0), view.integer("end", rank))
    first, last = (max(0, min(each + rank if each < 0 else each, rank)) for each in bounds)
    return first, last


def _filled(view: View) -> Shape | None:
    target = view.elements()
    return tuple(view.facts.unknown() if n is None or not view.facts.is_at_least(n, 0) else n for n in target)


def _range(view: View) -> Shape | None:
    start, limit, step = (None if (c := view.contents(index)) is None else c[0] for index in range(3))
    if start is None or limit is None or step != ONE or not view.facts.is_at_least(limit - start, 0):
        return view.unknown(1)
    return (limit - start,)


def _one_hot(view: View) -> Shape | None:
    indices, depth = view.known(), view.contents(1)
    axis = at(view.integer("axis", -1), len(indices) + 1)
    known = depth[0] if depth else None
    return (*indices[:axis], view.facts.unknown() if known is None else known, *indices[axis:])


def _top(view: View) -> list[Shape | None]:
    x, count = view.known(), view.contents(1)
    axis = at(view.integer("axis", -1), len(x))
    found = count[0] if count else None
    result = (*x[:axis], view.facts.unknown() if found is None else found, *x[axis + 1 :])
    return [result, result]


def _non_zero(view: View) -> Shape | None:
    x = view.shape()
    # For a scalar, some runtimes return one axis, and others none.
    return None if not x else (Size.of(len(x)), view.facts.unknown())


MOVING: Mapping[tuple[str, str], Rule] = {
    ("", "Transpose"): _transposed,
    ("", "Reshape"): _reshaped,
    ("", "Flatten"): _flattened,
    ("", "Squeeze"): _squeezed,
    ("", "Unsqueeze"): _unsqueezed,
    ("", "Expand"): _expanded,
    ("", "Tile"): _tiled,
    ("", "Concat"): _joined,
    ("", "Split"): _split,
    ("", "Slice"): _sliced,
    ("", "Gather"): _gathered,
    ("", "GatherElements"): lambda view: view.shape(1),
    ("", "GatherND"): _gathered_nd,
    ("", "Pad"): _padded,
    ("", "Shape"): _shape,
    ("", "Size"): lambda view: (),
    ("", "ConstantOfShape"): _filled,
    ("", "Range"): _range,
    ("", "OneHot"): _one_hot,
    ("", "TopK"): _top,
    ("", "NonZero"): _non_zero,
}
