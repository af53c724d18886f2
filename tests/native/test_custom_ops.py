"""The library as custom operators, for versions of ONNX Runtime without kernel registries and for the ORT format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from tests.native.nodes import model
from tests.native.provider import multiplies_in_bfloat16, needs_kernel, needs_provider, relative_l2
from tests.native.test_nodes import drawn

pytestmark = needs_provider
X = {"x": drawn(2, 5, 24)}
QUERY = {"query": drawn(2, 7, 3 * 32)}
MODELS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "FeedForward": (
        model("FeedForward", X, {"w1": drawn(24, 40), "w2": drawn(40, 24), "b2": drawn(24)}, activation="relu"),
        X,
    ),
    "Linear": (model("Linear", X, {"w": drawn(24, 48), "b": drawn(48)}, splits=[16, 32]), X),
    "Attention": (
        model("Attention", QUERY, {}, size=8, num_heads=4, kv_num_heads=4, scale=0.5, causal=0),
        QUERY,
    ),
}


def with_custom_ops(precision: str = "") -> onnxruntime.SessionOptions:
    import onnxruntime_ep_ffn

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if precision:
        options.add_session_config_entry("ep.ffnexecutionprovider.precision", precision)
    options.register_custom_ops_library(onnxruntime_ep_ffn.get_library_path())
    return options


def session(model: bytes | str, options: onnxruntime.SessionOptions | None = None) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def by_body(model: bytes, feeds: Any) -> Any:
    return session(model).run(None, feeds)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("precision", "least", "most"), [("", 0, 1e-6), ("bf16", 1e-5, 2e-2), ("int8", 1e-5, 6e-2)])
def test_a_custom_operator_computes_what_the_body_does(kind: str, precision: str, least: float, most: float) -> None:
    needs_kernel(precision or "f32")
    data, feeds = MODELS[kind]
    least = 0 if kind == "Attention" and not multiplies_in_bfloat16() else least
    got = session(data, with_custom_ops(precision)).run(None, feeds)
    for y, wanted in zip(got, by_body(data, feeds), strict=True):
        assert least <= relative_l2(y, wanted) <= most, "the precision that was asked for"


def test_the_kernels_run_and_not_the_body(tmp_path: Path) -> None:
    options = with_custom_ops()
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    data, feeds = MODELS["FeedForward"]
    profiled = session(data, options)
    profiled.run(None, feeds)
    events = json.loads(Path(profiled.end_profiling()).read_text())
    assert {e["args"]["op_name"] for e in events if e.get("cat") == "Node"} == {"FeedForward"}


def test_a_node_that_no_kernel_serves_ends_loading_with_one_line() -> None:
    weights = {"w1": drawn(24, 40), "w2": drawn(40, 24)}
    fed = model("FeedForward", X | weights, {}, activation="relu")
    with pytest.raises(Exception, match="do not serve this node of FeedForward: load the model without the library"):
        session(fed, with_custom_ops())


def test_a_precision_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Exception, match="precision of FfnExecutionProvider is f32, bf16 or int8, not 'f8'"):
        session(MODELS["FeedForward"][0], with_custom_ops("f8"))


def test_a_model_in_the_ort_format_runs(tmp_path: Path) -> None:
    data, feeds = MODELS["FeedForward"]
    saving = with_custom_ops()
    saving.optimized_model_filepath = str(tmp_path / "model.ort")
    saving.add_session_config_entry("session.save_model_format", "ORT")
    session(data, saving)
    got = session(str(tmp_path / "model.ort"), with_custom_ops()).run(None, feeds)
    assert np.allclose(got[0], by_body(data, feeds)[0], rtol=1e-5, atol=1e-5)
