"""The models of the standard's own backend tests: none is broken on any target, and its definitions are recognised.

They are a thousand small graphs that nobody here wrote. What ran before fusing runs after it, with the same numbers.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Iterable
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.backend.test.case import node

from ffn_export.fusion.pipeline import fuse
from ffn_export.runtimes.session_options import NO_OPTIMIZER, SessionSettings
from tests.fusion.graphs import assert_fuses

# Making all cases takes ten seconds.
pytestmark = pytest.mark.slow

TARGETS = ("portable", "ort", "ort-cpu", "ort-cuda")
TOLERANCE = {2: 5e-3, 4: 1e-4, 8: 1e-10}  # by the bytes of a number
_NOT_COMPARED = frozenset({"RandomNormal", "RandomUniform", "Multinomial", "Bernoulli", "Dropout"})


NORMS = [
    f"{norm}_{axis}_expanded{version}"
    for norm, versions in (("layer_normalization", ("", "_ver18")), ("rms_normalization", ("",)))
    for version in versions
    for axis in (
        "default_axis",
        "2d_axis1",
        "2d_axis_negative_1",
        "3d_axis2_epsilon",
        "3d_axis_negative_1_epsilon",
        "4d_axis3",
        "4d_axis_negative_1",
    )
]
DEFINED = {
    "gelu": ("gelu", "Gelu"),
    "laye": ("layernormalization", "LayerNormalization"),
    "rms_": ("rmsnormalization", "RMSNormalization"),
}
GELUS = [f"gelu_{kind}_expanded" for kind in ("default_1", "default_2", "tanh_1", "tanh_2")]


@cache
def files() -> tuple[str, ...]:
    """Return the names of the files that make cases, most of them one for each operator."""
    found = pkgutil.walk_packages(node.__path__, f"{node.__name__}.")
    return tuple(sorted(each.name.removeprefix(f"{node.__name__}.") for each in found if not each.ispkg))


@cache
def cases_of(file: str) -> dict[str, onnx.ModelProto]:
    """Return the model of each case of a file, by its name; to import it makes them."""
    made, count = node._NodeTestCases, len(node._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"{node.__name__}.{file}")
    return {case.name: case.model for case in made[count:] if case.model is not None}


def standard_cases(of: Iterable[str]) -> dict[str, onnx.ModelProto]:
    """Return the model of each case of some files."""
    return {name: model for file in of for name, model in cases_of(file).items()}


def session(model: ir.Model, settings: SessionSettings = NO_OPTIMIZER) -> onnxruntime.InferenceSession:
    """Load a model on a processor."""
    options = settings.session_options(1)
    options.log_severity_level = 4
    proto = ir.to_proto(model).SerializeToString()
    return onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])


def drawn(of: ir.Model) -> dict[str, np.ndarray]:
    """Draw an input for each, of numbers that are indices and sizes too."""
    draw = np.random.default_rng(0)
    found = {}
    for value in of.graph.inputs:
        assert value.dtype is not None
        shape = [size if isinstance(size, int) else 3 for size in value.shape or ()]
        numbers = draw.standard_normal(shape) if value.dtype.is_floating_point() else draw.integers(0, 2, shape)
        found[str(value.name)] = numbers.astype(value.dtype.numpy())
    return found


def broken(name: str, proto: onnx.ModelProto) -> list[str]:
    """Fuse a case for every target, and say where what came of it does not load, run or agree."""
    of = ir.from_proto(proto)
    try:
        feeds = drawn(of)
        expected = session(of).run(None, feeds)
    except Exception:  # noqa: BLE001 - onnxruntime, and NumPy's dtypes, do not take all of them: it has nothing to say then
        expected = None
    found = []
    for target in TARGETS:
        fused, report = fuse(of, target)
        before, after = ([node.op_identifier() for node in each.graph] for each in (of, fused))
        is_same = before == after and not report.rules
        if expected is None or is_same or target == "ort-cuda" or _NOT_COMPARED & {node.op_type for node in of.graph}:
            continue
        for settings in (NO_OPTIMIZER, SessionSettings()):
            actual = session(fused, settings).run(None, feeds)
            found += [f"{name} for {target}" for pair in zip(expected, actual, strict=True) if not agree(*pair)]
    return found


def agree(expected: object, actual: object) -> bool:
    """Whether two results have one shape and dtype, and the same numbers up to rounding."""
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return repr(expected) == repr(actual)
    if (expected.shape, expected.dtype) != (actual.shape, actual.dtype):
        return False
    if expected.dtype.kind != "f":
        return bool((expected == actual).all())
    tolerance = TOLERANCE[expected.dtype.itemsize]
    return np.allclose(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("name", [*GELUS, *NORMS])
def test_the_definitions_of_the_standard_are_recognised(name: str) -> None:
    file, expected = DEFINED[name[:4]]
    assert_fuses(ir.from_proto(cases_of(file)[f"test_{name}"]), [expected])


def test_a_sample_of_the_cases_is_not_broken() -> None:
    telling = [file for file in files() if any(part in file for part in ("gelu", "normalization", "matmul", "gemm"))]
    near, others = standard_cases(telling), standard_cases(files()[::10])
    sample = {**dict(list(near.items())[::8]), **dict(list(others.items())[::6])}
    assert len(sample) > 30
    assert [line for case in sample.items() for line in broken(*case)] == []


@pytest.mark.exhaustive
def test_no_case_is_broken() -> None:
    cases = standard_cases(files())
    assert len(cases) > 1400
    assert [line for case in cases.items() for line in broken(*case)] == []
