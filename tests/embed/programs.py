"""The examples as programs that can be run, made once in a directory of the test run; or why they cannot be made."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from executed import of_kernels

EXAMPLES = Path(__file__).parents[2] / "examples"
HEADERS = (os.environ.get("ORT_INCLUDE", ""), "/usr/include/onnxruntime", "/usr/local/include/onnxruntime")
COMPILERS = {"c": "cc", "cpp": "c++"}
NEEDED = {"c": ("onnxruntime_c_api.h", "cjson/cJSON.h"), "cpp": ("onnxruntime_cxx_api.h", "nlohmann/json.hpp")}

Done = subprocess.CompletedProcess[str]
Once = Callable[[str, Callable[[Path], None]], Path]
"""Gives a directory of a name, filled once."""


@dataclass(frozen=True)
class Program:
    """An example: what it is called with, before its arguments."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, *arguments: str | Path, **environment: str) -> Done:
        """Run it to its end, in this environment and what is given besides."""
        env = {**os.environ, **self.environment, **environment}
        command = [*self.command, *map(str, arguments)]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)

    def profile(self, bundle: Path, scratch: Path, *arguments: str) -> list[dict[str, Any]]:
        """Run a bundle, which must go well, and return what ONNX Runtime's profile says of each node that ran."""
        done = self.run(bundle, "--profile", scratch / "profile", *arguments)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        (profile,) = scratch.glob("profile*.json")
        return [event["args"] for event in of_kernels(json.loads(profile.read_text()))]

    def executed(self, bundle: Path, scratch: Path, *arguments: str) -> list[str]:
        """Do the same, and return the operators that ran, in order."""
        return [kernel["op_name"] for kernel in self.profile(bundle, scratch, *arguments)]


def python(once: Once) -> Program:
    """The program of ``examples/python``."""
    return Program((sys.executable, str(EXAMPLES / "python" / "run_bundle.py")))


def node(once: Once) -> Program:
    """The program of ``examples/node``, with what it depends on."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("there is no node: apt-get install nodejs npm")
    return Program((program, str(once("node", npm_install) / "index.mjs")))


def npm_install(directory: Path) -> None:
    """Copy the example of a directory's name there, with its npm packages.

    Their own scripts are left out: they fetch libraries for GPUs.
    """
    name, npm = directory.name, shutil.which("npm")
    if npm is None:
        pytest.skip("there is no npm: apt-get install npm")
    shutil.copytree(EXAMPLES / name, directory, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
    flags = ("--ignore-scripts", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")
    # npm's own two retries take over a minute where there is no registry.
    retries = ("--fetch-retries=1", "--fetch-retry-mintimeout=2000")
    command = [npm, "install", *flags, *retries]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"npm does not install what examples/{name} needs: {done.stderr.strip().splitlines()[0]}")


def c(once: Once) -> Program:
    """The program of ``examples/c``."""
    return _compiled("c", once)


def cpp(once: Once) -> Program:
    """The program of ``examples/cpp``."""
    return _compiled("cpp", once)


def _compiled(name: str, once: Once) -> Program:
    compiler = COMPILERS[name]
    missing = [tool for tool in ("make", compiler) if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"there is no {missing[0]}: apt-get install make gcc g++")
    missing = [header for header in NEEDED[name] if not _has_header(compiler, header)]
    if missing:
        pytest.skip(f"there is no header {missing[0]}: examples/README.md says where it is from")
    libraries = list(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"))
    if not libraries:
        pytest.skip("onnxruntime's wheel has no libonnxruntime.so here")
    program = once(name, _make) / "run_bundle"
    return Program((str(program),), {"ONNXRUNTIME_LIBRARY": str(libraries[0])})


def _make(directory: Path) -> None:
    # Unoptimised: the C++ headers take half as long to compile then.
    flags = [f"{variable}=-O0 -Wall -Wextra -Werror" for variable in ("CFLAGS", "CXXFLAGS")]
    command = ["make", "-C", str(EXAMPLES / directory.name), f"OUT={directory / 'run_bundle'}", *flags]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


def _has_header(compiler: str, header: str) -> bool:
    places = [f"-I{place}" for place in HEADERS if place]
    language = "c" if compiler == "cc" else "c++"
    command = [compiler, "-E", "-x", language, *places, "-include", header, os.devnull]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


PROGRAMS = {"python": python, "node": node, "c": c, "cpp": cpp}
