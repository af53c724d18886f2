"""The targets, the purposes of a fused graph, and the rules of each in the order in which they are tried.

To add a fused form, write its rule in a file of ``rules/`` and add it to the tuples of its targets here: to ``forms``,
or to ``optional`` if it is not faster everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module

from ffn_export.core.activations import TABLE
from ffn_export.errors import UsageError, did_you_mean
from ffn_export.fusion.canonicalise.decomposed_norm import LayerNorm, RmsNorm
from ffn_export.fusion.canonicalise.einsum_product import EinsumProduct
from ffn_export.fusion.canonicalise.gelu import Gelu
from ffn_export.fusion.canonicalise.half_norm import HalfNorm
from ffn_export.fusion.canonicalise.layer_norm_expanded import LayerNormExpanded
from ffn_export.fusion.canonicalise.norm_affine import NormBias, NormScale
from ffn_export.fusion.canonicalise.norm_of_rows import NormOfRows
from ffn_export.fusion.canonicalise.norm_of_sum import NormOfSum
from ffn_export.fusion.canonicalise.product_of_rows import ProductOfRows
from ffn_export.fusion.canonicalise.skip_norm_apart import SkipLayerNormApart, SkipRmsNormApart
from ffn_export.fusion.canonicalise.swish import Swish
from ffn_export.fusion.canonicalise.transposed_activation import TransposedActivation
from ffn_export.fusion.forms.attention import ATTENTION
from ffn_export.fusion.forms.by_rows.row_chunks import ROW_CHUNKS
from ffn_export.fusion.forms.by_rows.split_hidden import SPLIT_HIDDEN_LAYERS
from ffn_export.fusion.forms.form import Form, of_rule
from ffn_export.fusion.forms.padded_widths.pad import PADDED_WIDTHS
from ffn_export.fusion.forms.rotary import ROTARY
from ffn_export.fusion.report import SiteKind
from ffn_export.fusion.rule import Rule
from ffn_export.fusion.rules.bias_gelu import BiasGelu, FastGelu
from ffn_export.fusion.rules.biased_gemm import BiasedGemm
from ffn_export.fusion.rules.fused_gemm import FusedGemm
from ffn_export.fusion.rules.ort_gelu import OrtGelu
from ffn_export.fusion.rules.quick_gelu import QuickGelu
from ffn_export.fusion.rules.skip_norm import SkipLayerNorm, SkipLayerNormInHalf, SkipRmsNorm

Rules = tuple[type[Rule], ...]


@dataclass(frozen=True)
class Target:
    """The purpose of a fused graph.

    Attributes:
        name: Name on the command line.
        summary: Purpose in a few words.
        canonical: Rules that raise all spellings to one operator, a vendor's if this target asks for it.
        forms: Rules that always combine canonical operators.
        optional: Forms that are used if the table of costs, or the caller, chooses so, in the order in which they are
            applied and in which ``tune`` tries them.
        kept: Kind of site -> reason to leave its canonical operators, if the target has no better form for it.
        fewest_nodes: Whether a feed-forward counts as fused only with one node between its products.
        outlines: Whether nodes of ``ai.ffn_export`` are written at the end, which the kernels of ``native/`` compute.
    """

    name: str
    summary: str
    canonical: Rules
    forms: Rules = ()
    optional: tuple[Form, ...] = ()
    kept: Mapping[SiteKind, str] = field(default_factory=dict)
    fewest_nodes: bool = False
    outlines: bool = False

    @property
    def is_tunable(self) -> bool:
        """Whether there is anything to choose by timing: optional forms, or the precision of native kernels."""
        return bool(self.optional) or self.outlines

    @property
    def rules(self) -> Rules:
        """All rules of the target."""
        return (*self.canonical, *self.forms, *(rule for form in self.optional for rule in form.rules))


def _spelling(name: str) -> type[Rule]:
    module, _, rule = name.partition(".")
    found: type[Rule] = getattr(import_module(f"ffn_export.fusion.canonicalise.{module}"), rule)
    return found


_CANONICAL: Rules = (
    *(_spelling(each.spelling) for each in TABLE.values() if each.spelling is not None),
    LayerNorm,
    LayerNormExpanded,
    RmsNorm,
    NormScale,
    NormBias,
    HalfNorm,
    NormOfRows,
    NormOfSum,
    EinsumProduct,
    TransposedActivation,
)
_CANONICAL_FOR_ORT: Rules = (Gelu, *_CANONICAL, QuickGelu, OrtGelu)

SLOWER = "one kernel for a residual sum and its norm is slower than two nodes"

APART_FOR_NATIVE = "the node before it takes the residual sum and its norm, where nothing else reads the sum"
NATIVE = "ort-native"

TARGETS: Mapping[str, Target] = {
    target.name: target
    for target in (
        Target(
            "portable",
            "standard operators only, for any runtime",
            canonical=(Gelu, Swish, *_CANONICAL),
            kept={"residual_norm": "the standard has no operator for a residual sum and its norm"},
        ),
        Target(
            "ort",
            "ONNX Runtime on CPU, the fewest nodes that it has kernels for",
            canonical=_CANONICAL_FOR_ORT,
            forms=(BiasGelu, FastGelu, FusedGemm, BiasedGemm, SkipLayerNorm, SkipRmsNorm),
            fewest_nodes=True,
        ),
        Target(
            "ort-cpu",
            "ONNX Runtime on CPU, the form of each site that was measured to be the fastest",
            canonical=_CANONICAL_FOR_ORT,
            optional=(ROTARY, ATTENTION, ROW_CHUNKS, SPLIT_HIDDEN_LAYERS, PADDED_WIDTHS),
            kept={"residual_norm": SLOWER},
        ),
        Target(
            NATIVE,
            "ONNX Runtime on CPU with the kernels of native/: feed-forwards, linear layers and attention as one node",
            canonical=(*_CANONICAL_FOR_ORT, SkipLayerNormApart, SkipRmsNormApart, ProductOfRows),
            optional=(ROTARY,),
            kept={"residual_norm": APART_FOR_NATIVE},
            outlines=True,
        ),
        Target(
            "ort-cuda",
            "ONNX Runtime on CUDA, the fused operators that its provider has kernels for",
            canonical=(*_CANONICAL_FOR_ORT, SkipLayerNormApart),
            optional=tuple(of_rule(each, used=True) for each in (BiasGelu, FastGelu, SkipLayerNormInHalf, SkipRmsNorm)),
        ),
    )
}


def get_target(name: str) -> Target:
    """Return the target of this name.

    Raises:
        UsageError: If no target has this name.
    """
    if name not in TARGETS:
        raise UsageError(f"unknown target {name!r};{did_you_mean(name, TARGETS)} known are {', '.join(TARGETS)}")
    return TARGETS[name]
