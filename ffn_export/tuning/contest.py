"""Time two candidates in turn, at every set of sizes, on fresh sessions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ffn_export.core.drawing import draw_all
from ffn_export.core.one_line import first_line
from ffn_export.core.strict import expose_own
from ffn_export.core.tensor_spec import TensorSpec
from ffn_export.core.words import size_label
from ffn_export.latency.competitors import Competitor
from ffn_export.latency.host import Host
from ffn_export.latency.interleaving import interleave
from ffn_export.latency.sessions import add_sessions
from ffn_export.latency.sizes import token_count
from ffn_export.latency.statistics import paired_ratio
from ffn_export.runtimes.base import Runner
from ffn_export.runtimes.ort_native import of_lower_precision
from ffn_export.runtimes.registry import get_runtime
from ffn_export.tuning.candidates import Candidate
from ffn_export.tuning.result import Pair, Trial

Load = Callable[[Candidate], Runner]


@dataclass(frozen=True)
class Contest:
    """Settings for timing two candidates against each other.

    Attributes:
        specs: The model's inputs.
        sizes: Sizes of the symbolic axes, one entry per measurement.
        load: Function that loads a candidate on the runtime.
        budget: Seconds of timed runs for each candidate and set of sizes.
    """

    specs: Sequence[TensorSpec]
    sizes: Sequence[Mapping[str, int]]
    load: Load
    budget: float

    def without_refused(self, candidate: Candidate) -> tuple[Contest, tuple[Trial, ...]]:
        """Return the contest at the sizes that a candidate runs on, and a refused trial for each of the others.

        Raises:
            RuntimeUnavailableError: If the runtime is not available here.
        """
        runner = self.load(candidate)
        taken: list[Mapping[str, int]] = []
        refused: list[Trial] = []
        for sizes in self.sizes:
            try:
                runner.prepare(draw_all(self.specs, sizes, 0))()
                taken.append(sizes)
            except Exception as error:  # noqa: BLE001 - whatever a runtime raises on these sizes
                expose_own(error)
                refused.append(Trial(f"inputs of {size_label(sizes)}", "refused", first_line(error)))
        return replace(self, sizes=taken), tuple(refused)

    def between(
        self, candidate: Candidate, other: Candidate, *, budget: float | None = None, seed: int = 0
    ) -> tuple[Pair, ...]:
        """Return the candidate's times over the other's, in the order of tokens.

        ``budget`` is the seconds of timed runs, None for those of the contest. ``seed`` draws the inputs.
        """
        both = {"candidate": candidate, "other": other}
        runners = {name: [self.load(each)] for name, each in both.items()}
        add_sessions(
            runners, lambda name: self.load(both[name]), both, max(each.weight_bytes for each in both.values())
        )
        pairs, host = [], Host()
        # The largest first: smaller sizes then reuse the memory that a session has allocated.
        for sizes in sorted(self.sizes, key=lambda each: -math.prod(each.values())):
            tokens = token_count(self.specs, sizes)
            feeds = draw_all(self.specs, sizes, seed)
            calls = {name: [runner.prepare(feeds) for runner in each] for name, each in runners.items()}
            since = host.read()
            runs = interleave(calls, self.budget if budget is None else budget)
            lost, stolen = host.lost(since), host.stolen(since.ticks)
            ratio = paired_ratio(Competitor("candidate"), runs["candidate"], Competitor("other"), runs["other"], lost)
            pairs.append(Pair(size_label(sizes), tokens, ratio, stolen))
        return tuple(reversed(pairs))


def loader(runtime: str, threads: int) -> Load:
    """Return a function that loads candidates on a runtime, or on native kernels in the precision of their choice.

    Raises:
        UsageError: If the runtime is unknown.
    """
    chosen = get_runtime(runtime)

    def load(candidate: Candidate) -> Runner:
        return (of_lower_precision(candidate.choice.precision) or chosen).load(candidate.artifact, threads)

    return load
