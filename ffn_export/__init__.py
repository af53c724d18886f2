"""Export PyTorch feed-forward and LayerNorm modules to ONNX, fuse them, and verify them against PyTorch.

Importing the package is light: torch and onnxruntime load when a function first needs them. The public names are
declared in ``__init__.pyi``.
"""

from __future__ import annotations

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    # `python -m ffn_export`: Python has put the current directory first on the path. A file of a downloaded directory
    # would be imported in place of a library. `exporter.source` adds the directory when a SPEC names a module.
    del sys.path[0]

from ffn_export.core.lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
__version__ = "0.1.0"
