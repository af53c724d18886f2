"""Read feed-forwards as calls of ``FeedForward``, with the norm and the residual around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx_ir as ir

from ffn_export.fusion import constants, layout, safety, sites
from ffn_export.fusion.engine import scoped_name
from ffn_export.fusion.functions import surroundings
from ffn_export.fusion.functions.contract import FEED_FORWARD, Call
from ffn_export.fusion.functions.site_reading import Reading
from ffn_export.fusion.functions.site_reading import read as read_site
from ffn_export.fusion.region import LAYOUT
from ffn_export.fusion.shapes import are_same_axes
from ffn_export.fusion.views import is_standard

_FLOAT = ir.DataType.FLOAT


def calls(model: ir.Model, places: Mapping[ir.Node, int]) -> Iterator[Call | tuple[str, str]]:
    """Yield the call of each feed-forward, or its name and why it has none.

    Args:
        model: The model. A call may be written before the next one is asked for.
        places: Position of every node in its graph.
    """
    taken: set[ir.Node] = set()
    for site in sites.feed_forwards(model):
        reading = read_site(model, site, places) if taken.isdisjoint(site.nodes) else "it shares nodes with another"
        if isinstance(reading, Reading):
            reading = _refusal(reading) or reading
        if isinstance(reading, str):
            yield scoped_name(site.nodes[-1]), reading
            continue
        taken.update(reading.nodes)
        yield _call(model, reading)


def _refusal(reading: Reading) -> str | None:
    """Return why the inputs and attributes of the contract do not describe a feed-forward."""
    x, end = reading.inputs["x"], reading.end
    values = [*reading.inputs.values(), end]
    other = next((value for value in values if value.dtype != _FLOAT), None)
    if other is not None:
        dtype = "not known" if other.dtype is None else other.dtype.name.lower()
        return f"the dtype of {other.name!r} is {dtype}, kernels are for float32"
    fed = next((v for name, v in reading.inputs.items() if name != "x" and not constants.is_constant(v)), None)
    if fed is not None:
        return f"{fed.name!r} is computed or fed, and not constant"
    if not reading.is_known:
        return "its activation or its weights are none of the contract"
    moved = [node for node in reading.nodes if is_standard(node, *LAYOUT) and node.outputs[0].dtype == _FLOAT]
    keep = all(node.inputs[0] is not None and layout.keeps_last_axis(node, node.inputs[0]) for node in moved)
    same = x.shape is not None and end.shape is not None and len(x.shape) == len(end.shape)
    if not keep or not same or not are_same_axes(list(x.shape or ())[:-1], list(end.shape or ())[:-1]):
        return f"the axes of {end.name!r} are not proven to be those of {x.name!r}"
    return None


def _call(model: ir.Model, reading: Reading) -> Call:
    found = surroundings.around(reading.inputs["x"], reading.end, reading.nodes)
    replaced = (*found.before, *reading.replaced, *found.behind)
    if safety.refusal(model, replaced, [found.end], None, 0) is not None:
        found, replaced = surroundings.Surroundings(reading.inputs["x"], reading.end), reading.replaced
    inputs = {**reading.inputs, "x": found.x, **found.inputs}
    return Call(FEED_FORWARD, inputs, {**reading.attributes, **found.attributes}, (found.end,), replaced)
