"""Send many requests at once to a served bundle, and hold each answer against the bundle run alone.

python measure.py URL BUNDLE [--requests 1000] [--tokens 16 ...] [--most 32]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

import ffn_export as fx
from batching import Batching
from serve_bundle import arrays, body

sys.path.append(str(Path(__file__).parents[1] / "python"))
from run_bundle import judged


def drawn(manifest: Mapping[str, Any], sizes: Mapping[str, int], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draw the inputs of a request; integers are 0 or 1, which are ids of any vocabulary and values of any mask."""
    found = {}
    for tensor in manifest["inputs"]:
        shape = [axis if isinstance(axis, int) else sizes.get(axis, 1) for axis in tensor["shape"]]
        normal = rng.standard_normal(shape)
        is_float = "float" in tensor["dtype"]
        found[tensor["name"]] = np.asarray(normal if is_float else np.ones(shape), np.dtype(tensor["dtype"]))
    return found


def line(name: str, seconds: Sequence[float], total: float) -> str:
    """Return throughput and latencies in one line."""
    median, most = np.percentile(seconds, [50, 99]) * 1e3
    return f"{name}: {len(seconds) / total:.0f} requests/s, median {median:.1f} ms, p99 {most:.1f} ms"


def alone(session: fx.Session, requests: Sequence[dict[str, np.ndarray]]) -> tuple[list[dict[str, np.ndarray]], str]:
    """Run each request alone in one session; return the answers, and a line of their times."""
    answers: list[dict[str, np.ndarray]] = []
    seconds: list[float] = []
    begun = time.perf_counter()
    for request in requests:
        started = time.perf_counter()
        answers.append(session.run(request))
        seconds.append(time.perf_counter() - started)
    return answers, line("one session, one request after another", seconds, time.perf_counter() - begun)


def together(session: fx.Session, requests: Sequence[dict[str, np.ndarray]], count: int) -> str:
    """Run requests in one session, some together, without a service; return a line of their times."""
    batching = Batching(session.manifest.to_dict())
    seconds: list[float] = []
    begun = time.perf_counter()
    for first in range(0, len(requests), count):
        some = requests[first : first + count]
        for numbers in batching.groups(some):
            started = time.perf_counter()
            group = [some[number] for number in numbers]
            batching.split(session.run(batching.join(group)), group)
            seconds += [time.perf_counter() - started] * len(group)
    return line(f"one session, {count} requests in a run", seconds, time.perf_counter() - begun)


async def served(url: str, requests: Sequence[dict[str, np.ndarray]]) -> tuple[list[dict[str, np.ndarray]], str]:
    """Send all requests at once; return the answers, and a line of their times."""
    bodies = [body(request) for request in requests]
    timeout, connector = aiohttp.ClientTimeout(total=300), aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as client:

        async def ask(data: bytes) -> tuple[bytes, float]:
            begun = time.perf_counter()
            async with client.post(url, data=data) as answer:
                answer.raise_for_status()
                return await answer.read(), time.perf_counter() - begun

        begun = time.perf_counter()
        told = await asyncio.gather(*map(ask, bodies))
        total = time.perf_counter() - begun
    return [arrays(data) for data, _ in told], line("served", [seconds for _, seconds in told], total)


def main() -> int:
    """Return the exit status: 0 if every answer is near enough, else 1."""
    parser = argparse.ArgumentParser(description="Send many requests at once to a served bundle.")
    parser.add_argument("url")
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--tokens", type=int, nargs="+", default=[16], help="lengths, drawn for each request")
    parser.add_argument("--most", type=int, default=32, help="requests in a run, without the service")
    given = parser.parse_args()
    session = fx.load(given.bundle)
    manifest = session.manifest.to_dict()
    rng = np.random.default_rng(0)
    lengths = rng.choice(given.tokens, given.requests)
    requests = [drawn(manifest, {"batch": 1, "seq": int(length)}, rng) for length in lengths]
    expected, told = alone(session, requests)
    print(told)
    print(together(session, requests, given.most))
    answers, told = asyncio.run(served(given.url, requests))
    print(told)
    wrong = 0
    for answer, right in zip(answers, expected, strict=True):
        wrong += not all(judged(name, answer[name], right[name], manifest)[0] for name in right)
    print(f"{len(answers)} answers, {wrong} of them out of bounds")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
