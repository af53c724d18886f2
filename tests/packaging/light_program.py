"""Load bundles and say what happens. It runs where NumPy, onnxruntime and ffn-export are installed and nothing else.

Arguments: directories of bundles. It prints one line of JSON for each: the error, or the first output.
"""

from __future__ import annotations

import json
import sys

import numpy as np

import ffn_export as fx


def told(directory: str) -> dict[str, object]:
    """Load a bundle and run it on ones."""
    try:
        session = fx.load(directory, threads=1)
        inputs = {
            each["name"]: np.ones([size if isinstance(size, int) else 2 for size in each["shape"]], each["dtype"])
            for each in session.manifest.inputs
        }
        result = next(iter(session.run(inputs).values()))
        return {"dtype": result.dtype.name, "output": result.astype(float).ravel().tolist()}
    except fx.FfnExportError as error:
        return {"error": type(error).__name__, "message": str(error)}


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(json.dumps(told(argument)))
