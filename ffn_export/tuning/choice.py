"""A choice of the tuning: forms of sites, session options, storage of weights, and precision of native kernels."""

from __future__ import annotations

from dataclasses import dataclass, field

from ffn_export.core.plain_data import PlainData
from ffn_export.fusion.forms import Forms
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.runtimes.session_options import SessionSettings


@dataclass(frozen=True)
class Choice(PlainData):
    """One way to run a model.

    Attributes:
        forms: Names of the optional forms in use.
        settings: The session options.
        quantization: Quantisation of the weights; None does not quantise them.
        precision: Precision of native kernels; None if there are none.
        raised: Names of the nodes that compute in the next precision, to keep the budget.
    """

    forms: Forms = frozenset()
    settings: SessionSettings = field(default_factory=SessionSettings)
    quantization: QuantizationOptions | None = None
    precision: str | None = None
    raised: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.settings.check()
