"""Times two candidates in turn, at every set of sizes, on sessions that are made for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ffn_export.exporter import onnx_file
from ffn_export.exporter.drawing import draw_all
from ffn_export.exporter.tensor_spec import TensorSpec
from ffn_export.latency.competitors import Competitor
from ffn_export.latency.measure import MOST_BYTES, SESSIONS, interleave
from ffn_export.latency.result import FEW_TOKENS
from ffn_export.latency.statistics import paired_ratio
from ffn_export.runtimes.base import Runner
from ffn_export.runtimes.registry import get_runtime
from ffn_export.tuning.candidates import Candidate
from ffn_export.tuning.result import Pair

Load = Callable[[Candidate], Runner]


@dataclass(frozen=True)
class Contest:
    """How two candidates are timed.

    Attributes:
        specs: The model's inputs.
        sizes: Sizes of the symbolic axes, one entry a measurement.
        load: Loads a candidate on the runtime.
        budget: Seconds of timed runs for each of both and set of sizes.
    """

    specs: Sequence[TensorSpec]
    sizes: Sequence[Mapping[str, int]]
    load: Load
    budget: float

    def between(
        self, candidate: Candidate, other: Candidate, *, budget: float | None = None, seed: int = 0
    ) -> tuple[Pair, ...]:
        """Return the candidate's times over the other's.

        At few tokens several sessions of each take turns: where the pages of its weights lie moves a session.

        Args:
            candidate: The one.
            other: What it is held against.
            budget: Seconds as in the class; None means those.
            seed: Seed of the inputs.
        """
        both = {"candidate": candidate, "other": other}
        runners: dict[str, list[Runner]] = {name: [self.load(each)] for name, each in both.items()}
        pairs = []
        for sizes in sorted(self.sizes, key=lambda each: -math.prod(each.values())):
            tokens = math.prod(sizes.values())
            if tokens <= FEW_TOKENS and _is_small(candidate):
                for name, each in both.items():
                    runners[name] += [self.load(each) for _ in range(SESSIONS - len(runners[name]))]
            feeds = draw_all(self.specs, sizes, seed)
            calls = {name: [runner.prepare(feeds) for runner in each] for name, each in runners.items()}
            seconds = interleave(calls, self.budget if budget is None else budget)
            ratio = paired_ratio(Competitor("candidate"), seconds["candidate"], Competitor("other"), seconds["other"])
            pairs.append(Pair(",".join(f"{name}={size}" for name, size in sizes.items()) or "static", tokens, ratio))
        return tuple(reversed(pairs))


def _is_small(candidate: Candidate) -> bool:
    return onnx_file.weight_bytes(onnx_file.load(candidate.path)) <= MOST_BYTES


def loader(runtime: str, threads: int) -> Load:
    """Return what loads candidates on a runtime.

    Raises:
        UsageError: There is no such runtime.
    """
    chosen = get_runtime(runtime)
    return lambda candidate: chosen.load(candidate.artifact, threads)
