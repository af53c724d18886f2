"""Options of a build. To add one, add a field to both classes here and an option to the command line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TypedDict

import onnx_ir as ir

from ffn_export.core.checked_numbers import check_seed, written
from ffn_export.errors import UsageError
from ffn_export.exporter.capture import DEFAULT_OPSET, check_opset
from ffn_export.fusion.forms import Forms
from ffn_export.fusion.functions.contract import DOMAIN
from ffn_export.fusion.report import SiteKind, check_required
from ffn_export.fusion.targets import NATIVE
from ffn_export.latency.gate import check_ratio
from ffn_export.parity.judging.tolerances import check_budget
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.runtimes.ort_cpu import OrtCpu
from ffn_export.runtimes.ort_native import FLOAT32, OrtNative, of_lower_precision, of_precision, provider_problem
from ffn_export.tuning.options import TuneOptions
from ffn_export.tuning.search import check as check_tuning

_COPY_WEIGHTS = (NATIVE, "ort-cuda")


@dataclass(frozen=True)
class BuildOptions:
    """Options of a build.

    Attributes:
        target: Name of the fusion target.
        opset: Opset of the export; fusion may raise it.
        runtimes: Names of required runtimes; None means every runtime that can run the model here.
        threads: Intra-op threads; None means the number of processors available to this process.
        seed: Seed of the drawn inputs.
        max_ratio: Largest allowed ratio of the median time over PyTorch's; None disables the latency gate.
        require_fusion: Kind of site -> number of sites that must be fused.
        bench_budget: Seconds of timed runs for each competitor and set of sizes; 0 skips the timing.
        check: Whether to run and compare the exported and the fused graph, and undo rewrites that differ.
        portable_functions: Add function bodies in standard operators for the ``com.microsoft`` operators.
        quantization: Quantisation of the weights; None does not quantise them.
        precision: Precision that native kernels compute in, ``f32``, ``bf16`` or ``int8``; None for ``f32`` with the
            target ``ort-native``, and nothing with another. ``bf16`` and ``int8`` need a ``budget``.
        budget: Declared relative L2 error of an output; None means 0.02 for a quantised model and 0.1 with
            ``int8``, otherwise the bound in ULP. A model that tuning stores in 8 bits must also meet the budget of
            ``tuning``.
        forms: Names of the optional forms to use; None means the default from the table of costs.
        share_weights: Keep the weights in a file of their own, and let sessions read them in its pages, which processes
            share, and not in packed copies. Products of a few dozen tokens are slower.
        fast: Verify on a few cases, and time nothing.
        tuning: Options for choosing forms, session options and, with a budget, 8-bit weights or the precision of
            native kernels by timing; None does not tune. Excludes ``quantization`` and ``precision``.

    Raises:
        ExportError: If the opset is not supported.
        UsageError: If a number is out of its range, a kind of site is unknown, a fast build is to time something, a
            precision is unknown, for another target, or without the budget that it needs, a target has nothing to tune
            or no such quantisation, or weights are to be shared that a provider copies anyway.
    """

    target: str = "ort-cpu"
    opset: int = DEFAULT_OPSET
    runtimes: Sequence[str] | None = None
    threads: int | None = None
    seed: int = 0
    max_ratio: float | None = None
    require_fusion: Mapping[SiteKind, int] = field(default_factory=dict)
    bench_budget: float = 1.5
    check: bool = True
    portable_functions: bool = False
    quantization: QuantizationOptions | None = None
    precision: str | None = None
    budget: float | None = None
    forms: Forms | None = None
    tuning: TuneOptions | None = None
    share_weights: bool = False
    fast: bool = False

    def __post_init__(self) -> None:
        if self.budget is None and self.quantization is not None:
            object.__setattr__(self, "budget", self.quantization.default_budget)
        if self.budget is not None:
            check_budget(self.budget)
        if self.precision is not None:
            self._check_precision(self.precision)
        elif self.target == NATIVE:
            object.__setattr__(self, "precision", FLOAT32.precision)
        check_seed(self.seed)
        check_opset(self.opset)
        check_required(self.require_fusion)
        if not isinstance(self.bench_budget, Real) or not 0 <= self.bench_budget < math.inf:
            raise UsageError(
                f"bench_budget of {written(self.bench_budget)} is no time: take a finite number of seconds, 0 to time "
                "nothing"
            )
        if self.max_ratio is not None:
            check_ratio(self.max_ratio)
        if self.fast and (self.max_ratio is not None or self.tuning is not None):
            raise UsageError("a fast build times nothing, so it has no largest ratio and no tuning: leave fast out")

        if self.share_weights and self.target in _COPY_WEIGHTS:
            raise UsageError(f"the kernels of {self.target} copy all weights: leave --share-weights out")
        if self.quantization is not None:
            self._check_quantization(self.quantization)
        if self.tuning is not None:
            self._check_tuning()

    def check_asked(self) -> None:
        """Check that a caller leaves the choice of the precision to the tuning, which sets it in these options.

        Raises:
            UsageError: If not.
        """
        if self.tuning is not None and of_lower_precision(self.precision) is not None:
            raise UsageError("tuning chooses the precision: give it a budget and leave precision out")

    def _check_quantization(self, quantization: QuantizationOptions) -> None:
        if self.target == NATIVE:
            raise UsageError(
                "native kernels quantize by themselves: take --precision int8 in place of --bits and --int8"
            )
        if self.target == "ort-cuda" and quantization.int8:
            raise UsageError("CUDA has no kernel for products of 8-bit integers: take --bits 8, or --target ort-cpu")

    def _check_tuning(self) -> None:
        check_tuning(self.target)
        if self.quantization is not None:
            raise UsageError("tuning chooses how weights are stored: give it a budget and leave quantization out")
        if self.share_weights:
            raise UsageError("tuning chooses the session options: leave share_weights out")

    def _check_precision(self, precision: str) -> None:
        of_precision(precision)
        if self.target != NATIVE:
            raise UsageError(f"only native kernels have a precision: give --target {NATIVE} beside --precision")
        if precision == FLOAT32.precision and self.budget is not None:
            raise UsageError("float32 is judged by PyTorch's own error: leave --budget out")
        if precision != FLOAT32.precision and self.budget is None:
            raise UsageError(f"{precision} differs from PyTorch: say by how much it may, with --budget")

    @property
    def native(self) -> OrtNative | None:
        """The runtime of the native kernels in the precision of the build; None with another target."""
        return None if self.precision is None else of_precision(self.precision)

    def judges(self, model: ir.Model | None = None) -> Sequence[str] | None:
        """Return the runtimes that must judge; None means every runtime that can run the model here.

        With native kernels, these are the CPU provider, which runs the bodies, and the kernels; those in float32 only
        where the provider is installed, and only if the fused model has a node for them: a module in half precision
        has none.
        """
        native = self.native
        if native is None:
            return self.runtimes
        has_nodes = model is None or any(node.domain == DOMAIN for node in model.graph.all_nodes())
        is_needed = native is not FLOAT32 or (has_nodes and provider_problem(native.precision) is None)
        given = self.runtimes or (OrtCpu.name,)
        return tuple(dict.fromkeys((*given, *([native.name] if is_needed else []))))


class GivenBuildOptions(TypedDict, total=False):
    """Keywords of :func:`ffn_export.build` that are fields of :class:`BuildOptions`, for type checkers."""

    target: str
    opset: int
    runtimes: Sequence[str] | None
    threads: int | None
    max_ratio: float | None
    require_fusion: Mapping[SiteKind, int]
    bench_budget: float
    check: bool
    portable_functions: bool
    quantization: QuantizationOptions | None
    precision: str | None
    budget: float | None
    forms: Forms | None
    tuning: TuneOptions | None
    share_weights: bool
    fast: bool
