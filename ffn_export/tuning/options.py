"""How a model is tuned. Plain data: the command line shows its defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
        seconds: Seconds of timed runs for each of two competitors and number of tokens; four times as many at last.
        budget: Largest relative L2 error of an output that allows weights in 8 bits; None does not try them.
        samples: Arrays by input name that the error is judged on; None draws some.
        load: Loads a candidate; None means the target's runtime.
    """

    tokens: Sequence[int] = DEFAULT_TOKENS
    seconds: float = DEFAULT_SECONDS
    budget: float | None = None
    samples: Mapping[str, Any] | None = None
    load: Callable[[Candidate], Runner] | None = None

    def command_line(self) -> tuple[str, ...]:
        """Return the options of ``ffn-export tune`` that say the same, as far as a command line can."""
        tokens = [word for count in self.tokens for word in ("--tokens", str(count))]
        budget = [] if self.budget is None else ["--budget", f"{self.budget:g}"]
        return (*tokens, "--seconds", f"{self.seconds:g}", *budget)
