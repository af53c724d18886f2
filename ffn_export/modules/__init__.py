"""Reference PyTorch modules: feed-forwards, norms, residual blocks, presets and their NumPy twins.

Importing this package, ``ffn_export.modules.presets`` or ``ffn_export.modules.numpy_twin`` does not
import torch; each public name loads its own module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ffn_export._lazy import attach

if TYPE_CHECKING:
    from ffn_export.modules.activations import ACTIVATIONS as ACTIVATIONS
    from ffn_export.modules.activations import make_activation as make_activation
    from ffn_export.modules.add_norm import AddNorm as AddNorm
    from ffn_export.modules.block import AddNormFeedForward as AddNormFeedForward
    from ffn_export.modules.block import FeedForwardBlock as FeedForwardBlock
    from ffn_export.modules.config import FeedForwardConfig as FeedForwardConfig
    from ffn_export.modules.conv import ConvFeedForward as ConvFeedForward
    from ffn_export.modules.feed_forward import FeedForward as FeedForward
    from ffn_export.modules.gated import GatedFeedForward as GatedFeedForward
    from ffn_export.modules.initialise import randomise_norms as randomise_norms
    from ffn_export.modules.initialise import small_normal_ as small_normal_
    from ffn_export.modules.norms import NORMS as NORMS
    from ffn_export.modules.norms import OffsetRMSNorm as OffsetRMSNorm
    from ffn_export.modules.norms import make_norm as make_norm
    from ffn_export.modules.presets import PRESETS as PRESETS
    from ffn_export.modules.presets import Preset as Preset
    from ffn_export.modules.presets import create as create
    from ffn_export.modules.presets import get_preset as get_preset
    from ffn_export.modules.twins import twin_of as twin_of

__all__ = [
    "ACTIVATIONS",
    "NORMS",
    "PRESETS",
    "AddNorm",
    "AddNormFeedForward",
    "ConvFeedForward",
    "FeedForward",
    "FeedForwardBlock",
    "FeedForwardConfig",
    "GatedFeedForward",
    "OffsetRMSNorm",
    "Preset",
    "create",
    "get_preset",
    "make_activation",
    "make_norm",
    "randomise_norms",
    "small_normal_",
    "twin_of",
]

# Hidden from type checkers, which would otherwise take any misspelt name for an object.
if not TYPE_CHECKING:
    __getattr__ = attach(
        __name__,
        {
            "ACTIVATIONS": "activations",
            "make_activation": "activations",
            "AddNorm": "add_norm",
            "AddNormFeedForward": "block",
            "FeedForwardBlock": "block",
            "FeedForwardConfig": "config",
            "ConvFeedForward": "conv",
            "FeedForward": "feed_forward",
            "GatedFeedForward": "gated",
            "randomise_norms": "initialise",
            "small_normal_": "initialise",
            "NORMS": "norms",
            "OffsetRMSNorm": "norms",
            "make_norm": "norms",
            "PRESETS": "presets",
            "Preset": "presets",
            "create": "presets",
            "get_preset": "presets",
            "twin_of": "twins",
        },
    )
