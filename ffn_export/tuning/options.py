"""How a model is tuned. Plain data: the command line shows its defaults."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ffn_export.errors import UsageError
from ffn_export.parity.judging.tolerances import check_budget

if TYPE_CHECKING:
    from ffn_export.runtimes.base import Runner
    from ffn_export.tuning.candidates import Candidate

DEFAULT_TOKENS = (1, 16, 128, 512)
DEFAULT_SECONDS = 0.3


@dataclass(frozen=True)
class TuneOptions:
    """How a model is tuned.

    Attributes:
        tokens: Numbers of tokens of the one sequence that is timed.
        seconds: Seconds of timed runs for each of two competitors and number of tokens; four times as many at last,
            and twice as many where the bundle that was chosen is timed beside PyTorch.
        budget: Largest relative L2 error of an output that allows weights in 8 bits; None does not try them.
        samples: Arrays by input name that the error is judged on; None draws some.
        load: Loads a candidate; None means the target's runtime.

    Raises:
        UsageError: If a number of tokens, the seconds or the budget is none that there can be.
    """

    tokens: Sequence[int] = DEFAULT_TOKENS
    seconds: float = DEFAULT_SECONDS
    budget: float | None = None
    samples: Mapping[str, Any] | None = None
    load: Callable[[Candidate], Runner] | None = None

    def __post_init__(self) -> None:
        if min(self.tokens, default=1) < 1:
            raise UsageError(f"{min(self.tokens)} tokens are none to tune for: take 1 or more")
        if not 0 < self.seconds < math.inf:
            raise UsageError(f"{self.seconds:g} seconds are no time to measure: take a number above 0")
        if self.budget is not None:
            check_budget(self.budget)

    @property
    def bench_budget(self) -> float:
        """Seconds for the bundle's own timing: it shows the choice beside PyTorch, and decides nothing."""
        return 2 * self.seconds

    def command_line(self) -> tuple[str, ...]:
        """Return the options of ``ffn-export tune`` that say the same, as far as a command line can."""
        tokens = [word for count in self.tokens for word in ("--tokens", str(count))]
        budget = [] if self.budget is None else ["--budget", f"{self.budget:g}"]
        return (*tokens, "--seconds", f"{self.seconds:g}", *budget)
