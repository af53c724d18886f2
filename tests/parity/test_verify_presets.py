"""Every preset, for both targets, agrees with the oracle over the whole sweep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ffn_export.exporter.source import Source
from ffn_export.modules.presets import PRESETS
from ffn_export.parity.cases.values import HALFWAY, VALUES
from ffn_export.parity.judging.result import ParityResult
from ffn_export.parity.judging.run_cases import run_cases
from ffn_export.parity.reference.cached_reference import RememberingReference
from ffn_export.parity.reference.references import TorchReference
from ffn_export.runtimes.session_options import NO_OPTIMIZER, SessionSettings
from tests.families import USUAL, some_of_them


# Wide presets take the longest: `make test` judges their structures at small widths (`tests/parity/faults/bases.py`).
@pytest.mark.slow
@pytest.mark.parametrize("preset", some_of_them(PRESETS, but=[each for each in USUAL if each != "d2l-ffn-addnorm"]))
def test_presets_pass_and_cover_empty_one_odd_and_large_sizes(
    preset: str, fused_file: Callable[..., Path], source: Callable[[str], Source]
) -> None:
    reference = RememberingReference(source(preset), 2)
    # Our own graph is on trial for the portable target, what ships for the other.
    for target, settings in (("portable", NO_OPTIMIZER), ("ort-cpu", SessionSettings())):
        judge(run_cases(fused_file(preset, target), reference, settings=settings, threads=2))


def judge(result: ParityResult) -> None:
    assert result.failures == ()
    assert result.judged == ("ort-cpu",)
    assert not [case for case in result.cases if case.skipped is not None]
    sizes = {size for case in result.cases for size in case.sizes.values()}
    assert {0, 1, 257} <= sizes
    assert set(VALUES) - {HALFWAY} == {case.values for case in result.cases}
    assert result.warnings == ()
    for case in result.cases:
        for output in case.outputs:
            conditioning = 2 * output.conditioning_ulps if VALUES[case.values].ill_conditioned else 0
            assert output.actual.ulps <= max(4 * output.baseline.ulps, 8, conditioning), case.case


@pytest.mark.slow
@pytest.mark.parametrize("preset", some_of_them(PRESETS))
def test_weights_are_traced_to_the_parameters(
    preset: str, fused_file: Callable[..., Path], source: Callable[[str], Source]
) -> None:
    reference = TorchReference(source(preset), 1)
    result = run_cases(fused_file(preset), reference, cases=[], threads=1)
    traced = {weight.parameter for weight in result.weights}
    matrices = {name for name, p in source(preset).module.named_parameters() if p.squeeze().ndim == 2}
    assert matrices <= traced
    assert all(weight.differing == 0 for weight in result.weights)
