"""Changes to a bundle, with the hashes of its manifest made right again, so that more than the hashes is asked."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from random import Random
from typing import Any

import onnx

from tests.fuzz.mutations import LOCATIONS, NAMES, NUMBERS, mutated

SPECS = (
    "os:abort",
    "payload:make",
    "payload",
    "subprocess:call",
    "model.pt2",
    "evil.pt2",
    "hf:.",
    "bert-ffn",
    "../payload:x",
)


def change(bundle: Path, changed: Path, random: Random) -> None:
    """Write a bundle in which something is changed."""
    shutil.rmtree(changed, ignore_errors=True)
    shutil.copytree(bundle, changed)
    manifest: Any = json.loads((changed / "manifest.json").read_text())
    for _ in range(random.choice((1, 1, 2))):
        match random.randrange(6):
            case 0:
                _change_model(bundle, changed, random)
            case 1:
                _change_file(changed, manifest, random)
            case 2:
                spec = random.choice(SPECS)
                if isinstance(manifest, dict) and isinstance(manifest.get("source"), dict):
                    manifest["source"]["spec"] = spec
                (changed / "evil.pt2").write_bytes(b"PK\x03\x04")
            case _:
                manifest = changed_value(manifest, random)
    if isinstance(manifest, dict) and isinstance(manifest.get("files"), dict) and random.random() < 0.9:
        for name in list(manifest["files"]):
            path = changed / name
            is_file = os.path.isfile(path)  # noqa: PTH113 - of a name that no system call takes it says no
            if is_file and path.resolve().is_relative_to(changed.resolve()):
                manifest["files"][name] = hashlib.sha256(path.read_bytes()).hexdigest()
    (changed / "manifest.json").write_text(json.dumps(manifest))


def _change_model(bundle: Path, changed: Path, random: Random) -> None:
    model = mutated(onnx.load(bundle / "model.onnx"), random) if random.random() < 0.8 else b""
    (changed / "model.onnx").write_bytes(model)


def _change_file(directory: Path, manifest: Any, random: Random) -> None:
    path = random.choice(sorted(each for each in directory.rglob("*") if each.is_file()))
    match random.randrange(4):
        case 0:
            path.unlink()
        case 1:
            data = path.read_bytes()
            path.write_bytes(data[: random.randrange(len(data) + 1)])
        case 2:
            path.unlink()
            path.symlink_to(random.choice(("/dev/zero", "../../secret.bin", "/etc/passwd", "nowhere", path.name)))
        case _:
            if isinstance(manifest, dict) and isinstance(manifest.get("files"), dict):
                manifest["files"][random.choice((*NAMES, *LOCATIONS))] = "0" * 64


def changed_value(data: Any, random: Random) -> Any:
    """Change something at any depth of what JSON holds."""
    if isinstance(data, dict) and data and random.random() < 0.85:
        key = random.choice(list(data))
        if random.random() < 0.1:
            del data[key]
        elif random.random() < 0.1:
            data[random.choice(NAMES)] = data.pop(key)
        else:
            data[key] = changed_value(data[key], random)
        return data
    if isinstance(data, list) and data and random.random() < 0.7:
        place = random.randrange(len(data))
        data[place] = changed_value(data[place], random)
        return data
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    others: tuple[Any, ...] = (
        None,
        True,
        "",
        [],
        {},
        1e308,
        -1.5,
        [[]],
        {"": None},
        deep,
        *NUMBERS,
        *NAMES,
        *SPECS,
        *LOCATIONS,
    )
    return random.choice(others)
