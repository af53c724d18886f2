"""Checks whose verdict depends on the tolerances: weights, properties, sizes. Rejudging a result repeats them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ffn_export.parity.cases.sizes.report import Sizes
from ffn_export.parity.judging import verdict
from ffn_export.parity.judging.check_result import CheckResult
from ffn_export.parity.judging.measures import PropertyMetrics

if TYPE_CHECKING:
    from ffn_export.parity.judging.result import ParityResult


DERIVED = frozenset({"weights", "properties", "sizes"})


def derived_checks(result: ParityResult) -> Iterator[CheckResult]:
    """Yield one check of the weights, one of the properties for each runtime, and one of the sizes."""
    yield _weights(result)
    for runtime in dict.fromkeys(each.runtime for each in result.properties):
        yield _properties(runtime, [each for each in result.properties if each.runtime == runtime], result)
    if result.sizes is not None:
        yield _sizes(result.sizes)


def _weights(result: ParityResult) -> CheckResult:
    found = (verdict.weight_failure(weight, result.tolerances) for weight in result.weights)
    findings = tuple(line for line in found if line is not None)
    words = [f"initializers traced to parameters: {len(result.weights)}, differing: {len(findings)}"]
    if result.untraced:
        words.append(f"matching no parameter: {len(result.untraced)} ({verdict.listed(result.untraced)})")
    if result.unheld:
        words.append(f"parameters in none: {len(result.unheld)} ({verdict.listed(result.unheld)})")
    said = "; ".join(words)
    if findings:
        return CheckResult("weights", "failed", said, findings)
    if verdict.foreign_weights(result.untraced, result.unheld) is not None:
        return CheckResult("weights", "warned", said)
    return CheckResult("weights", "passed" if result.weights else "not checked", said)


def _properties(runtime: str, asked: Sequence[PropertyMetrics], result: ParityResult) -> CheckResult:
    failures = {each: verdict.property_failure(each, result.tolerances) for each in asked}
    findings = tuple(f"{runtime}, {line}" for line in failures.values() if line is not None)
    # A property is tested along several axes and on several outputs.
    kinds = len({each.property for each in asked})
    broken = len({each.property for each, line in failures.items() if line is not None})
    words = f"{runtime}: {kinds} asked of it, {broken} broken"
    return CheckResult("properties", "failed" if findings else "passed", words, findings)


def _sizes(sizes: Sizes) -> CheckResult:
    left = f"; left out: {len(sizes.left_out)} sizes, as {sizes.left_out[0]}" if sizes.left_out else ""
    if sizes.unknown is not None:
        return CheckResult("sizes", "not checked", sizes.unknown + left)
    if sizes.proven:
        return CheckResult("sizes", "passed", f"proven to shape data only{left}")
    more = f", and {len(sizes.uses) - 1} more places" if len(sizes.uses) > 1 else ""
    found = f"numbers or conditions: {sizes.uses[0]}{more}; met on both sides"
    if not sizes.asked:
        return CheckResult("sizes", "passed", found + left)
    return CheckResult("sizes", "warned", f"{found}, but for {sizes.asked} sizes{left}")
