"""The page of ``examples/browser`` in Chromium: what it finds, and the nodes that its console saw running."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ffn_export as fx
from executed import of_kernels
from ffn_export.runtimes.session_options import STOP_REFUSING, SessionSettings
from tests.browser import needs_browser, start
from tests.bundle.processors import on_another_processor
from tests.embed.bundles import executed_in_python, vector, with_options, with_vector
from tests.embed.programs import EXAMPLES, Once, npm_install

pytestmark = [pytest.mark.integration, needs_browser]

# ONNX Runtime's WebAssembly prints its profile, a line an event.
_KEEP_WHAT_IS_PRINTED = "window.printed = []; console.log = (...words) => { window.printed.push(words.join(' ')); };"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves files, and keeps no record."""

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield from start(tmp_path_factory.mktemp("browser"))


@pytest.fixture
def site(once: Once, tmp_path: Path) -> Iterator[str]:
    """Serve ``tmp_path``, where the page is too, and give the URL."""

    def fill(directory: Path) -> None:
        shutil.copytree(EXAMPLES / "node", directory / "node", ignore=shutil.ignore_patterns("node_modules"))
        npm_install(directory / "browser")

    for name in ("node", "browser"):
        (tmp_path / name).symlink_to(once("site", fill) / name)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=tmp_path))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def show(browser: Any, site: str, bundle: str, options: str = "profile") -> tuple[int, str, list[str]]:
    """Open the page on a bundle, and return its status, what it shows and the operators that ran."""
    from selenium.webdriver.support.ui import WebDriverWait

    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _KEEP_WHAT_IS_PRINTED})
    browser.get(f"{site}/browser/index.html?bundle=/{bundle}&{options}")
    wait = WebDriverWait(browser, timeout=60)
    status = wait.until(lambda driver: driver.execute_script("return document.documentElement.dataset.status"))
    shown = browser.execute_script("return document.getElementById('result').textContent")
    lines = [line.strip().rstrip(",") for line in browser.execute_script("return window.printed")]
    ran = of_kernels(json.loads(line) for line in lines if line.startswith("{"))
    return int(status), shown, [event["args"]["op_name"] for event in ran]


def test_weights_may_be_beside_the_graph(
    browser: Any, site: str, bundle: Callable[[str], Path], tmp_path: Path
) -> None:
    there = on_another_processor(bundle("plain"), tmp_path / "there")
    fx.join([bundle("plain"), there], tmp_path / "bundle", fast=True)
    assert (tmp_path / "bundle" / "model.onnx.data").is_file()
    status, shown, executed = show(browser, site, "bundle")
    assert (status, shown.split(":")[0]) == (0, "y"), shown
    assert executed == executed_in_python(bundle("plain"))


@pytest.mark.parametrize("name", ["plain", "contrib operators", "two inputs", "by rows"])
def test_the_page_runs_the_nodes_that_were_measured(
    browser: Any, site: str, bundle: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    (tmp_path / "bundle").symlink_to(bundle(name))
    status, shown, executed = show(browser, site, "bundle")
    assert (status, shown.split(":")[0]) == (0, "y"), shown
    assert executed == executed_in_python(bundle(name))


def test_the_page_applies_the_options(browser: Any, site: str, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    seen = []
    for name, entries in (("given", STOP_REFUSING), ("none", {})):
        changed = with_options(bundle("plain"), tmp_path / name, SessionSettings("all", entries))
        status, _, executed = show(browser, site, name)
        assert (status, executed) == (0, executed_in_python(changed))
        seen.append(executed)
    assert seen[0] == executed_in_python(bundle("plain"))
    assert seen[1] != seen[0]


def test_the_page_says_what_is_wrong(browser: Any, site: str, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    expected = vector(bundle("plain"), "output")
    expected.flat[-1] = np.nan
    with_vector(bundle("plain"), tmp_path / "nan", "output", expected)
    assert show(browser, site, "nan")[:2] == (1, "y: largest difference NaN, allowed NaN")
    status, shown, executed = show(browser, site, "missing")
    assert (status, executed) == (2, [])
    assert shown == "/missing/manifest.json: 404 File not found"


def test_webgpu_runs_or_says_that_there_is_no_adapter(
    browser: Any, site: str, bundle: Callable[[str], Path], tmp_path: Path
) -> None:
    (tmp_path / "bundle").symlink_to(bundle("plain"))
    browser.get(f"{site}/browser/index.html")
    adapter = "return navigator.gpu ? await navigator.gpu.requestAdapter() !== null : false"
    has_adapter = browser.execute_script(f"return (async () => {{ {adapter} }})()")
    status, shown, _ = show(browser, site, "bundle", "provider=webgpu&tolerance=1e-4")
    assert (status, shown.split(":")[0]) == (
        (0, "y") if has_adapter else (2, "this browser gives no WebGPU adapter")
    ), shown


def test_a_provider_of_another_name(browser: Any, site: str, bundle: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "bundle").symlink_to(bundle("plain"))
    assert show(browser, site, "bundle", "provider=cuda")[:2] == (2, "provider cuda is neither wasm nor webgpu")
