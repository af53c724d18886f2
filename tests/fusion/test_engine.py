"""One sweep over the graph: what a rule writes is named, ordered and noted, and seen by the next rule."""

from __future__ import annotations

import cProfile

import onnx_ir as ir
import pytest

from ffn_export.fusion.engine import Log, Sweep, scoped_name, sorted_nodes
from ffn_export.fusion.pipeline import fuse
from ffn_export.fusion.provenance import RULE_KEY
from ffn_export.fusion.rule import Found, Rule, standard
from ffn_export.fusion.targets import TARGETS
from tests.fusion.graphs import assert_fuses, assert_refuses, assert_same_function, model, operators

SILU = "s = Sigmoid(x) y = Mul(x, s)"
CANONICAL = TARGETS["portable"].canonical


def test_order_of_the_data_where_inputs_come_late() -> None:
    """x of the pattern is there before the root in every case: the replacement stands where the root stood."""
    body = "s = Sigmoid(x) z = Neg(x) y = Mul(s, x) w = Mul(y, z)"
    fused, _ = assert_fuses(model(body, outputs="float[batch,seq,8] y, float[batch,seq,8] w"), ["Neg", "Swish", "Mul"])
    seen: set[ir.Value | None] = {*fused.graph.inputs, *fused.graph.initializers.values()}
    for node in fused.graph:
        assert seen.issuperset(node.inputs)
        seen.update(node.outputs)


def test_initializers_shared_by_two_sites() -> None:
    constants = "float alpha = {1.702}"
    body = "t = Mul(x, alpha) s = Sigmoid(t) z = Mul(x, s) u = Mul(alpha, z) v = Sigmoid(u) y = Mul(v, z)"
    fused, report = assert_fuses(model(body, constants), ["Swish", "Swish"])
    assert report.rules == {"swish": 2}
    assert not fused.graph.initializers


def test_initializer_that_one_refused_site_still_reads() -> None:
    body = """t = Mul(x, alpha) s = Sigmoid(t) z = Mul(x, s)
              u = Mul(alpha, z) v = Sigmoid(u) y = Mul(v, z) w = Neg(v)"""
    of = model(body, "float alpha = {1.702}", outputs="float[batch,seq,8] y, float[batch,seq,8] w")
    fused, report = fuse(of, "portable")
    assert operators(fused) == ["Swish", "Mul", "Sigmoid", "Mul", "Neg"]
    assert set(fused.graph.initializers) == {"alpha"}
    assert_same_function(of, fused)
    assert [site.status for site in report.sites] == ["refused"]


def test_one_sigmoid_for_two_products() -> None:
    body = "s = Sigmoid(x) y = Mul(x, s) z = Mul(s, x)"
    of = model(body, outputs="float[batch,seq,8] y, float[batch,seq,8] z")
    fused, report = fuse(of, "portable")
    assert operators(fused) == ["Sigmoid", "Mul", "Mul"]
    assert [site.reason for site in report.sites] == ["intermediate 's' is also read by Mul"] * 2
    assert_same_function(of, fused)


def test_result_that_is_an_output_twice_over() -> None:
    assert_fuses(model(SILU + " z = Neg(y)", outputs="float[batch,seq,8] y, float[batch,seq,8] z"), ["Swish", "Neg"])


def named(*names: str | None) -> ir.Model:
    of = model("s = Sigmoid(x) z = Mul(x, s) t = Sigmoid(z) y = Mul(z, t)")
    for node, name in zip(of.graph, names, strict=True):
        node.name = name
    return of


def test_names() -> None:
    fused, _ = assert_fuses(named("a", "b", "c", "d"), ["Swish", "Swish"])
    assert [node.name for node in fused.graph] == ["b", "d"]
    assert [node.outputs[0].name for node in fused.graph] == ["z", "y"]


@pytest.mark.parametrize("names", [("", "", "", ""), ("n", "n", "n", "n"), (None, None, None, None)])
@pytest.mark.parametrize("target", ["portable", "ort-cpu"])
def test_empty_and_duplicate_node_names(names: tuple[str | None, ...], target: str) -> None:
    fused, _ = fuse(named(*names), target)
    assert operators(fused) == ["Swish" if target == "portable" else "QuickGelu"] * 2
    if names[0] != "n":  # onnxruntime refuses a model with two nodes of one name
        assert_same_function(named(*names), fused)


def test_refusal_of_a_node_without_a_name() -> None:
    report = assert_refuses(model(SILU, outputs="float[batch,seq,8] y, float[batch,seq,8] s"), "graph output")
    assert report.sites[0].name == "Mul"


def test_metadata_of_nodes_and_values() -> None:
    of = model(SILU)
    root, y = of.graph[1], of.graph.outputs[0]
    root.metadata_props["pkg.torch.onnx.name_scopes"] = "['', 'layer.0', 'layer.0.act', 'mul']"
    root.name, root.doc_string = "mul", "what it was"
    y.metadata_props["note"], y.doc_string = "kept", "the result"
    of.metadata_props["author"], of.graph.doc_string, of.doc_string = "me", "graph", "model"
    fused, _ = assert_fuses(of, ["Swish"])
    (swish,) = fused.graph
    assert swish.metadata_props == {
        "pkg.torch.onnx.name_scopes": "['', 'layer.0', 'layer.0.act', 'mul']",
        RULE_KEY: "swish",
    }
    assert swish.doc_string == "what it was"
    assert scoped_name(swish) == "layer.0.act/mul"
    assert fused.graph.outputs[0].metadata_props == {"note": "kept"}


def test_scoped_name() -> None:
    node = ir.Node("", "Relu", [], name="n")
    assert scoped_name(node) == "n"
    node.name = None
    assert scoped_name(node) == "Relu"
    node.metadata_props["pkg.torch.onnx.name_scopes"] = "['', 'relu']"
    assert scoped_name(node) == "Relu"


def test_sorted_nodes() -> None:
    nodes = list(model("a = Neg(x) b = Abs(a) c = Exp(x) y = Add(b, c)").graph)
    assert [node.op_type for node in sorted_nodes([nodes[3], nodes[1], nodes[0], nodes[3]])] == ["Neg", "Abs", "Add"]


def test_every_rule_is_indexed_by_a_known_operator() -> None:
    sweep = Sweep(CANONICAL)
    indexed = {key for key, rules in sweep._by_operator.items() if rules}
    names = ("Add", "Cast", "Div", "Einsum", "LayerNormalization", "Mul", "Reshape", "Sub", "Transpose", "Where")
    assert indexed == {("", name) for name in names}


class Broken(Rule):
    """A rule with a fault."""

    site = "feed_forward"
    writes = None
    ends = standard("Mul")

    def match(self, node: ir.Node) -> Found:
        raise ZeroDivisionError("division by zero")


@pytest.mark.usefixtures("as_in_production")
def test_a_rule_that_raises_costs_its_own_site_and_no_other() -> None:
    of, log = model(SILU), Log()
    Sweep((Broken, *CANONICAL)).apply(of, log)
    assert operators(of) == ["Swish"]
    of, log = model("y = Mul(x, x)"), Log()
    Sweep((Broken, *CANONICAL)).apply(of, log)
    assert [refusal.reason for refusal in log.refusals] == ["reading it raised ZeroDivisionError: division by zero"]


def test_a_sweep_of_no_rules() -> None:
    of, log = model(SILU), Log()
    Sweep(()).apply(of, log)
    assert (operators(of), log) == (["Sigmoid", "Mul"], Log())


def chain(layers: int) -> ir.Model:
    """A chain of tanh GELUs in their slowest operand order, each with an RMSNorm and a SiLU after it."""
    body = [
        f"""
            p{k} = Pow(x{k}, three) q{k} = Mul(p{k}, inner) r{k} = Add(q{k}, x{k}) a{k} = Mul(r{k}, outer)
            t{k} = Tanh(a{k}) u{k} = Add(one, t{k}) h{k} = Mul(half, x{k}) g{k} = Mul(u{k}, h{k})
            s{k} = Mul(g{k}, g{k}) m{k} = ReduceMean(s{k}, axes) e{k} = Add(epsilon, m{k}) o{k} = Sqrt(e{k})
            i{k} = Reciprocal(o{k}) n{k} = Mul(i{k}, g{k}) w{k} = Mul(scale, n{k})
            z{k} = Sigmoid(w{k}) x{k + 1} = Mul(z{k}, w{k})
        """
        for k in range(layers)
    ]
    constants = """float half = {0.5}, float one = {1}, float outer = {0.7978845608}, float inner = {0.044715},
        float three = {3}, int64[1] axes = {-1}, float epsilon = {1e-5}, float[8] scale = {1,1,1,1,1,1,1,1}"""
    inputs, outputs = "float[batch,seq,8] x0", f"float[batch,seq,8] x{layers}"
    return model("".join(body), constants, inputs=inputs, outputs=outputs, opset=20)


def test_chain() -> None:
    _, report = assert_fuses(chain(3), ["Gelu", "RMSNormalization", "Swish"] * 3)
    assert report.rules == {"gelu": 3, "norm-scale": 3, "rms-norm": 3, "swish": 3}


@pytest.mark.slow
def test_time_grows_with_the_graph_and_not_with_its_square() -> None:
    def calls(layers: int) -> int:
        """Count function calls instead of seconds: the same number on a busy machine, and under coverage."""
        of = chain(layers)
        with cProfile.Profile() as profile:
            fused, _ = fuse(of, "ort-cpu")
        assert len(fused.graph) == 3 * layers
        return sum(entry.callcount for entry in profile.getstats())

    calls(1)  # what is worked out once for a process
    assert calls(96) / calls(12) < 9
