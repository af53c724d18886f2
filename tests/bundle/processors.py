"""Bundles of other processors than this one."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

from ffn_export.core.processor import Kind

OTHER, THIRD = Kind("avx2", "GenuineIntel", "6"), Kind("neon")


def on_another_processor(bundle: Path, to: Path, kind: Kind = OTHER) -> Path:
    """Copy a bundle as if it had been built on another kind of processor."""
    shutil.copytree(bundle, to)
    manifest = json.loads((to / "manifest.json").read_text())
    (to / "manifest.json").write_text(json.dumps({**manifest, "processor": asdict(kind)}))
    return to
