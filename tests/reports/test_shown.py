"""Results print as the tables of the command line, and show in a notebook."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest

import ffn_export as fx


@pytest.mark.slow
def test_results_print_and_show(tmp_path: Path) -> None:
    built = fx.build("d2l-ffn", directory=tmp_path, bench_budget=0)
    assert "parity of model.onnx against d2l-ffn: passed" in str(built.parity)
    assert "feed_forward:0" in str(built.fusion)
    assert "same function" in str(built)
    assert str(built).endswith(str(built.directory))
    assert max(map(len, str(built).splitlines())) <= 100
    page = built.fusion._repr_html_()
    assert page.startswith("<pre")
    assert "nodes 5 -&gt; 5" in page


@pytest.mark.slow
def test_models_are_taken_as_files_and_protos(tmp_path: Path) -> None:
    model = fx.export("d2l-ffn")
    fx.save(model, tmp_path / "m.onnx")
    fx.save(ir.to_proto(model), tmp_path / "p.onnx")
    assert (tmp_path / "m.onnx").read_bytes() == (tmp_path / "p.onnx").read_bytes()
    nodes = fx.fuse(model)[1].nodes
    for each in (tmp_path / "m.onnx", str(tmp_path / "m.onnx"), ir.to_proto(model)):
        assert fx.fuse(each)[1].nodes == nodes
    assert fx.verify(ir.to_proto(model), against="d2l-ffn", runtimes=["ort-cpu"]).passed
