"""Run a bundle with ffn_export: `fx.load` checks its files against the manifest and applies the options itself.

python load_bundle.py BUNDLE [--tolerance R]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import ffn_export as fx
from run_bundle import compare, vectors


def main() -> int:
    """Return the exit status: 0 near enough, 1 not, 2 it cannot be run."""
    parser = argparse.ArgumentParser(description="Run a bundle's test vectors as ffn_export loads it.")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--tolerance", metavar="R", type=float, help="times the largest output, not the manifest's")
    arguments = parser.parse_args()
    bundle = arguments.bundle
    try:
        session = fx.load(bundle)
    except fx.FfnExportError as error:
        print(error, file=sys.stderr)
        return 2
    actual = session.run(vectors(bundle, "input", len(session.manifest.inputs)))
    expected = vectors(bundle, "output", len(session.manifest.outputs))
    manifest = session.manifest.to_dict()
    near = [compare(name, actual[name], expected[name], manifest, arguments.tolerance) for name in expected]
    return 0 if all(near) else 1


if __name__ == "__main__":
    sys.exit(main())
