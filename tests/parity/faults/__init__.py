"""Planted faults: mistakes that exporters, fusers and people make, each to be caught by ``ffn-export verify``."""

from __future__ import annotations

from tests.parity.faults import (
    activations,
    attention,
    integers,
    interface,
    joint,
    norms,
    precision,
    sizes,
    structure,
    tokens,
    values,
    weights,
)

THEMES = {
    "Weights": weights.FAULTS,
    "Activations": activations.FAULTS,
    "Norms": norms.FAULTS,
    "Structure": structure.FAULTS,
    "Attention": attention.FAULTS,
    "Sizes": sizes.FAULTS,
    "Values": values.FAULTS,
    "Several conditions": joint.FAULTS,
    "Integers": integers.FAULTS,
    "Precision": precision.FAULTS,
    "Tokens and runs": tokens.FAULTS,
    "Inputs and outputs": interface.FAULTS,
}
FAULTS = tuple(fault for faults in THEMES.values() for fault in faults)
