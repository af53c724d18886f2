"""The healthy files that faults are planted into, and how the command line is told what they should compute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import onnx_ir as ir

from ffn_export.core.tensor_spec import TensorSpec, parse_inputs
from ffn_export.exporter.export import export_source
from ffn_export.exporter.source import Source, resolve
from ffn_export.fusion.pipeline import fuse
from ffn_export.modules.presets import PRESETS
from tests.parity.faults import half_modules, modules

OPSET = 20
TARGET = "ort-cpu"


@dataclass(frozen=True)
class Base:
    """One module, exported and fused.

    Attributes:
        spec: Its SPEC.
        inputs: ``NAME:DTYPE[DIM,...]`` of each input; a preset knows its own.
        fused: Whether the fault goes into the fused graph, or into the one that the exporter wrote.
    """

    spec: str
    inputs: tuple[str, ...] = ()
    fused: bool = True

    @property
    def arguments(self) -> list[str]:
        """What follows ``ffn-export verify FILE``."""
        return ["--against", self.spec, *(word for each in self.inputs for word in ("--input", each))]

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """The inputs of the graph."""
        return parse_inputs(self.inputs or PRESETS[self.spec].inputs)

    def source(self) -> Source:
        """Resolve it anew: a module that nobody else holds."""
        return resolve(self.spec, self.inputs or None)

    def graph(self, target: str = TARGET) -> ir.Model:
        """Return its graph, exported once in this process.

        It has no optional forms: which are used depends on the processor, and attention as one node has no inner values
        that a fault fits into.
        """
        model = _exported(self.spec, self.inputs)
        return fuse(model, target, forms=())[0] if self.fused else model.clone()


@cache
def _exported(spec: str, inputs: tuple[str, ...]) -> ir.Model:
    return export_source(resolve(spec, inputs or None), OPSET)


def _small(name: str, *inputs: str, fused: bool = True) -> Base:
    return Base(f"{modules.__name__}:{name}", inputs or (f"x:float32[batch,seq,{modules.WIDTH}]",), fused)


def _half(name: str) -> Base:
    """A module that computes in float32 between casts; the fault goes into nodes that fusing would merge."""
    inputs = (f"x:float16[1<=batch<=16,1<=seq<=64,{modules.WIDTH}]",)
    return Base(f"{half_modules.__name__}:{name}", inputs, fused=False)


_DECODER = tuple(
    f"{name}:int64[batch<=16,seq<={modules.LONGEST}]{{{values}}}"
    for name, values in (("ids", "0..60"), ("mask", "mask"))
)

BASES: Mapping[str, Base] = {
    **{
        name: _small(name)
        for name in ("post_norm", "pre_norm", "swiglu", "offset_geglu", "relu", "square", "two_outputs")
    },
    # PyTorch's own attention, translated, has a Reshape that ONNX Runtime refuses for an empty sequence.
    "encoder": _small("encoder", f"x:float32[batch<=16,1<=seq<=64,{modules.WIDTH}]"),
    "swiglu_exported": _small("swiglu", fused=False),
    "decoder": _small("decoder", *_DECODER),
    "joined": _small("joined", *(f"{name}:float32[batch,seq,{modules.WIDTH}]" for name in ("x", "residual"))),
    "rounded": _small("rounded"),
    "embedding": _small("embedding", "ids:int64[batch,seq]"),
    **{name: _half(name) for name in ("half_llama", "half_gemma", "half_gpt2", "half_llava", "half_sums")},
    **{name: Base(name) for name in PRESETS},
}
SMALL = tuple(name for name in BASES if name not in PRESETS)
