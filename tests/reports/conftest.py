"""Results made by hand, as the parts that measure would give them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from matplotlib.figure import Figure

from ffn_export.fusion.report import FusionReport, Site
from ffn_export.latency.result import Ceilings, LatencyResult, Measurement, Ratio, Timing, Work
from ffn_export.parity.bisection.result import Bisection, Error, Given, NodeFacts, Part
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.measures import Deviation, OutputMetrics, WeightMetrics
from ffn_export.parity.judging.result import CaseResult, ParityResult
from ffn_export.parity.judging.tolerances import Tolerances
from ffn_export.runtimes.environment import Environment
from tests.untraced import untraced

ENVIRONMENT = Environment(
    {"python": "3.11.9", "torch": "2.11.0", "onnxruntime": "1.23.2"},
    "AMD EPYC 9654 96-Core Processor",
    "Linux x86_64",
    8,
)

MakeCase = Callable[..., CaseResult]
MakeParity = Callable[..., ParityResult]


@pytest.fixture(autouse=True, scope="session")
def drawn_untraced() -> Iterator[None]:
    """Trace what draws charts, and not how matplotlib writes them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", untraced(Figure.savefig))
        yield


@pytest.fixture
def case() -> MakeCase:
    """Make a case of one float32 output: its name, its error in ulps, and PyTorch's own."""

    def make(name: str, ulps: float, baseline: float = 1.3) -> CaseResult:
        actual = Deviation(ulps * 2e-7, 1e-7, ulps, 140.0, 1.0, worst_index=(1, 4))
        own = Deviation(baseline * 2e-7, 1e-7, baseline, 140.0, 1.0, worst_index=(0, 2))
        output = OutputMetrics("y", "float32", 3.5, actual, own, frontier=((ulps * 2e-7, 2.5),))
        return CaseResult("ort-cpu", name, {"batch": 3, "seq": 5}, "normal", 0, (output,))

    return make


@pytest.fixture
def parity() -> MakeParity:
    """Make a verification of nothing but these cases."""

    def make(*cases: CaseResult) -> ParityResult:
        return ParityResult("bert-ffn.onnx", "bert-ffn", Tolerances(), cases, environment=ENVIRONMENT)

    return make


@pytest.fixture
def passed(case: MakeCase, parity: MakeParity) -> ParityResult:
    return parity(case("batch=3,seq=5 normal", 1.9), case("batch=0,seq=5 normal", 0.0))


@pytest.fixture
def warned(case: MakeCase, parity: MakeParity) -> ParityResult:
    """A result of a passed case and one that is 1.5 times over its bound, for a known reason."""
    over = case("batch=3,seq=5 offset", 12.0)
    outputs = (replace(over.outputs[0], conditioning_ulps=3.0),)
    excused = replace(over, outputs=outputs, imprecise_operators=("com.microsoft::SkipLayerNormalization",))
    return parity(case("batch=3,seq=5 normal", 1.9), excused)


@pytest.fixture
def bisection() -> Bisection:
    """A node that is named, and more others than are shown."""
    node = NodeFacts("node_gelu|1", "Gelu", "layers.0", ("a",), ("h",))
    own = Error(292.4, 8.0, 36.55, index=(1, 4))
    given = (Given("a", "a", Error(1.5)), Given("x", "x"))
    part = Part("h", "h_1", node, own, own, given=given, contrast=("approximate is tanh, the reference has none",))
    return Bisection(
        "bert-ffn.onnx",
        "bert-ffn",
        "ort-cpu",
        "batch=3,seq=5 normal",
        {"batch": 3, "seq": 5},
        "node",
        "Gelu 'node_gelu|1' in layers.0 is the first that is wrong alone",
        compared=9,
        part=part,
        further=(part,) * 7,
    )


@pytest.fixture
def failed(case: MakeCase) -> ParityResult:
    """A result that has one of everything."""
    refused = CaseResult(
        "ort-cpu", "batch=0,seq=5 normal", {}, "normal", 0, skipped="bert-ffn itself refuses these inputs"
    )
    raised = CaseResult("openvino", "loading the model", {}, "none", 0, error="openvino cannot load the model: no Gelu")
    return ParityResult(
        model="bert-ffn.onnx",
        against="bert-ffn",
        tolerances=Tolerances(),
        cases=(case("batch=3,seq=5 normal", 1.9), case("batch=3,seq=5 large", 292.4), refused, raised),
        unavailable={"ort-cuda": "the GPU wheel of onnxruntime is not installed"},
        checks=(
            CheckResult.of(
                "interface",
                "as the spec says",
                ("output 'y' has axes [batch, 5, 768], the spec says [batch, seq, 768]",),
            ),
        ),
        weights=(
            WeightMetrics("w1", "linear1.weight", 0, 0.0, ()),
            WeightMetrics("w2", "linear2.weight", 3, 0.01, (0, 7)),
        ),
        placement={"ort-cpu": {"CPUExecutionProvider": 9}},
        environment=ENVIRONMENT,
    )


@pytest.fixture
def fusion() -> FusionReport:
    return FusionReport(
        target="ort-cpu",
        sites=(
            Site(
                "feed_forward:0",
                "feed_forward",
                "encoder.layer.0.output.dense/node_linear_1",
                "rewritten",
                "MatMul BiasGelu MatMul Add",
                rule="gelu_erf+bias_gelu",
                activation="gelu",
                gated=False,
                d_model=768,
                d_ff=3072,
            ),
            Site(
                "norm:0",
                "norm",
                "encoder.norm[0]/node_layer_norm",
                "already optimal",
                "LayerNormalization",
            ),
            Site(
                "norm:1", "norm", "node_Div_7", "refused", "Sub Pow Div", rule="rms_norm", reason="epsilon is no scalar"
            ),
        ),
        rules={"bias_gelu": 1, "gelu_erf": 1},
        nodes={"before": 50, "after": 31},
        opset={"before": 18, "after": 20},
    )


@pytest.fixture
def gpu_latency(latency: LatencyResult) -> LatencyResult:
    """The same, and ort-cuda without copies and with them."""

    def on_gpu(measurement: Measurement) -> Measurement:
        without = Timing("ort-cuda", 0.0010, 0.0011, 0.0012, 50, accelerated=True)
        timings = (without, replace(without, median=0.0040, p90=0.0042, p99=0.0044, copies=True))
        ratio = Ratio("ort-cuda", "torch", 0.5, 0.4, 0.6)
        ratios = (ratio, replace(ratio, value=2.0, low=1.9, high=2.1, copies=True))
        return replace(measurement, timings=(*measurement.timings, *timings), ratios=(*measurement.ratios, *ratios))

    return replace(latency, measurements=tuple(map(on_gpu, latency.measurements)))


@pytest.fixture
def latency() -> LatencyResult:
    return LatencyResult(
        model="bert-ffn.onnx",
        baseline="torch",
        measurements=(
            Measurement(
                {"batch": 8, "seq": 128},
                (Timing("torch", 0.0213, 0.0221, 0.0240, 50), Timing("ort-cpu", 0.0152, 0.0158, 0.0171, 50)),
                (Ratio("ort-cpu", "torch", 0.714, 0.702, 0.731),),
                Work(9_663_676_416, 20_000_000),
            ),
            Measurement(
                {"batch": 1, "seq": 1},
                (Timing("torch", 0.00021, 0.00023, 0.00031, 50), Timing("ort-cpu", 0.000208, 0.00022, 0.0003, 50)),
                (Ratio("ort-cpu", "torch", 0.99, 0.96, 1.02),),
            ),
        ),
        unavailable={"openvino": "openvino is not installed"},
        environment=ENVIRONMENT,
        ceilings=Ceilings(operations=1e12, bytes=2e10),
    )
