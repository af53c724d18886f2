"""Options of the tuning. Light: the command line shows its defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ffn_export.core.checked_numbers import check_tokens, is_positive, written
from ffn_export.errors import UsageError
from ffn_export.parity.judging.tolerances import check_budget

if TYPE_CHECKING:
    from ffn_export.runtimes.base import Runner
    from ffn_export.tuning.candidates import Candidate

DEFAULT_TOKENS = (1, 16, 128, 512)
DEFAULT_SECONDS = 0.3


@dataclass(frozen=True)
class TuneOptions:
    """Options of the tuning.

    Attributes:
        tokens: Sequence lengths to time, with a single sequence.
        seconds: Seconds of timed runs for each of two competitors and number of tokens. The final comparison with the
            default takes four times as many, and the timing of the bundle beside PyTorch twice as many.
        budget: Largest relative L2 error of an output with 8-bit weights or, with the target ``ort-native``, in
            bfloat16 or 8-bit integers; None tries none of these.
        samples: Input name -> array to verify on in addition to the drawn inputs.
        load: Function that loads a candidate; None means the target's runtime.

    Raises:
        UsageError: If tokens are empty or no lengths, or the seconds or the budget is not a finite number above 0.

    Examples:
        >>> fx.TuneOptions(tokens=(1, 128), budget=0.02).tokens
        (1, 128)
    """

    tokens: Sequence[int] = DEFAULT_TOKENS
    seconds: float = DEFAULT_SECONDS
    budget: float | None = None
    samples: Mapping[str, Any] | None = None
    load: Callable[[Candidate], Runner] | None = None

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        if not is_positive(self.seconds):
            raise UsageError(f"seconds of {written(self.seconds)} are no time to measure: take a number above 0")
        if self.budget is not None:
            check_budget(self.budget)

    @property
    def bench_budget(self) -> float:
        """Seconds of timed runs of the bundle, which compare the choice with PyTorch and decide nothing."""
        return 2 * self.seconds

    def command_line(self) -> tuple[str, ...]:
        """Return the equivalent options of ``ffn-export tune``; samples and ``load`` have none."""
        tokens = [word for count in self.tokens for word in ("--tokens", str(count))]
        budget = [] if self.budget is None else ["--budget", f"{self.budget:g}"]
        return (*tokens, "--seconds", f"{self.seconds:g}", *budget)
