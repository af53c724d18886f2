"""Configuration fields of a feed-forward, under Hugging Face's names. Does not import torch."""

from __future__ import annotations

from dataclasses import dataclass

from ffn_export.errors import UsageError


@dataclass(frozen=True)
class FeedForwardConfig:
    """The part of a model's configuration that describes its feed-forward.

    The names are those of ``transformers.BertConfig``, so that :meth:`read` accepts one.

    Attributes:
        hidden_size: d_model.
        intermediate_size: d_ff.
        hidden_dropout_prob: Probability of dropout after the second linear.
        hidden_act: Name of the activation; by default erf GELU, as in BERT.
    """

    hidden_size: int
    intermediate_size: int
    hidden_dropout_prob: float
    hidden_act: str = "gelu"

    @classmethod
    def read(cls, config: object) -> FeedForwardConfig:
        """Read the fields from any object that has them as attributes.

        Raises:
            UsageError: A field is missing, or ``hidden_act`` is not a name.
        """
        needed = ("hidden_size", "intermediate_size", "hidden_dropout_prob")
        missing = [name for name in needed if not hasattr(config, name)]
        if missing:
            raise UsageError(f"the config lacks {', '.join(missing)}: it needs {', '.join(needed)}")
        hidden_act = getattr(config, "hidden_act", cls.hidden_act)
        if not isinstance(hidden_act, str):
            raise UsageError(f"hidden_act must be the name of an activation, got {hidden_act!r}")
        hidden_size, intermediate_size, hidden_dropout_prob = (getattr(config, name) for name in needed)
        return cls(hidden_size, intermediate_size, hidden_dropout_prob, hidden_act)
