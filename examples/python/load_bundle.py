"""Run a bundle with ffn_export: `fx.load` checks its files against the manifest and applies the options itself.

python load_bundle.py BUNDLE
"""

from __future__ import annotations

import sys
from pathlib import Path

import ffn_export as fx
from run_bundle import compare, vectors


def main() -> int:
    """Return the exit status: 0 near enough, 1 not, 2 it cannot be run."""
    if len(sys.argv) != 2:
        print("usage: python load_bundle.py BUNDLE", file=sys.stderr)
        return 2
    try:
        session = fx.load(sys.argv[1])
    except fx.FfnExportError as error:
        print(error, file=sys.stderr)
        return 2
    bundle = Path(sys.argv[1])
    actual = session.run(vectors(bundle, "input", len(session.manifest.inputs)))
    expected = vectors(bundle, "output", len(session.manifest.outputs))
    near = [compare(name, actual[name], expected[name], tolerance=1e-5) for name in expected]
    return 0 if all(near) else 1


if __name__ == "__main__":
    sys.exit(main())
