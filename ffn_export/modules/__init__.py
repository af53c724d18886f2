"""Reference PyTorch modules: feed-forwards, norms, residual blocks, presets and their NumPy twins.

Importing this package, ``ffn_export.modules.presets`` or ``ffn_export.modules.numpy_twin`` does not
import torch; each public name loads its module on first use.
"""

from __future__ import annotations

from ffn_export.core.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
