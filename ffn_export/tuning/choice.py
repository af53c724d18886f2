"""A choice of the tuning: forms of sites, session options, and storage of weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ffn_export.fusion.forms import Forms
from ffn_export.quantization.options import QuantizationOptions
from ffn_export.runtimes.session_options import SessionSettings


@dataclass(frozen=True)
class Choice:
    """One way to run a model.

    Attributes:
        forms: The open forms in use.
        settings: The session options.
        quantization: Quantisation of the weights; None does not quantise them.
    """

    forms: Forms = field(default_factory=Forms)
    settings: SessionSettings = field(default_factory=SessionSettings)
    quantization: QuantizationOptions | None = None

    def whole(self) -> Choice:
        """Return the choice without split hidden layers."""
        return replace(self, forms=self.forms.whole())

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "forms": self.forms.to_dict(),
            "session_options": self.settings.to_dict(),
            "quantization": None if self.quantization is None else asdict(self.quantization),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Choice:
        """Restore from the data of :meth:`to_dict`."""
        quantization = data["quantization"]
        return cls(
            Forms.from_dict(data["forms"]),
            SessionSettings.from_dict(data["session_options"]),
            None if quantization is None else QuantizationOptions(**quantization),
        )
