"""Text of small decoders: the tokens that PyTorch's cache gives, for two prompts of different lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers  # type: ignore[import-not-found,unused-ignore]

from ffn_export.core.quiet import silent
from ffn_export.core.types import Array

STEPS = 14
IDS = np.array([[0, 0, 0, 5, 17, 3], [8, 60, 9, 12, 44, 31]])
MASK = (IDS != 0).astype(np.int64)  # the first prompt is padded on the left


def generate_in_torch(directory: Path) -> tuple[Array, Array]:
    """Return the tokens and the logits of transformers, with the cache that it makes for the model."""
    with silent():
        model: Any = transformers.AutoModelForCausalLM.from_pretrained(directory, attn_implementation="eager")
    model.generation_config.eos_token_id = None
    result = model.generate(
        torch.tensor(IDS),
        attention_mask=torch.tensor(MASK),
        max_new_tokens=STEPS,
        do_sample=False,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return result.sequences[:, IDS.shape[1] :].numpy(), torch.stack(result.logits, dim=1).numpy()
