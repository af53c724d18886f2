"""Edges of models that lack something or hold too much: constants, types, attributes, nodes that are malformed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.fusion.edges.edge import Edge, edge
from tests.fusion.edges.snippets import ERF, gelu, layer_norm
from tests.fusion.edges.texts import CONSTANTS, LAYER, changed


def edges() -> Iterator[Edge]:
    """Yield them."""
    yield from _constants()
    yield from _damaged()


def _constants() -> Iterator[Edge]:
    forms = {
        "value_float": ("value_float = 1.4142135", ""),
        "value": ("value = float {1.4142135}", ""),
        "value-rank-1": ("value = float[1] {1.4142135}", ""),
        "value_floats": ("value_floats = [1.4142135]", ""),
        "value_int": ("value_int = 2", "k"),
        "value_ints": ("value_ints = [2]", "k"),
        "value_string": ('value_string = "a"', "unused"),
        "value_strings": ('value_strings = ["a", "b"]', "unused"),
    }
    for name, (attribute, kind) in forms.items():
        if kind == "unused":
            body = f"k = Constant<{attribute}>() {gelu('x', 'y')}"
        elif kind == "k":
            body = f"k = Constant<{attribute}>() f = Cast<to = 1>(k) root2 = Sqrt(f) {gelu('x', 'y').replace('root', 'root2')}"
        else:
            body = f"root2 = Constant<{attribute}>() {gelu('x', 'y').replace('root', 'root2')}"
        yield edge(f"constant-{name}", body, ERF, opset=20, fused="Gelu")
    base = edge(
        "base", "root2 = Constant<value_float = 1.4142135>() " + gelu("x", "y").replace("root", "root2"), ERF, opset=20
    )

    def sparse(proto: onnx.ModelProto) -> None:
        values = numpy_helper.from_array(np.array([1.4142135], np.float32), "v")
        indices = numpy_helper.from_array(np.array([0], np.int64), "i")
        attribute = helper.make_attribute("sparse_value", helper.make_sparse_tensor(values, indices, [1]))
        del proto.graph.node[0].attribute[:]
        proto.graph.node[0].attribute.append(attribute)

    def none(proto: onnx.ModelProto) -> None:
        del proto.graph.node[0].attribute[:]

    def two(proto: onnx.ModelProto) -> None:
        proto.graph.node[0].attribute.append(helper.make_attribute("value_int", 3))

    yield changed(base, sparse, "constant-sparse")
    yield changed(base, none, "constant-without-a-value")
    yield changed(base, two, "constant-with-two-values")

    def sparse_initializer(proto: onnx.ModelProto) -> None:
        values = numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "scale")
        indices = numpy_helper.from_array(np.array([1, 3], np.int64), "i")
        kept = [i for i in proto.graph.initializer if i.name != "scale"]
        del proto.graph.initializer[:]
        proto.graph.initializer.extend(kept)
        proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [8]))

    yield changed(edge("s", layer_norm("x", "y"), CONSTANTS, opset=20), sparse_initializer, "sparse-initializer")
    yield changed(
        edge("s", "k = Mul(x, scale) " + gelu("k", "y"), CONSTANTS, opset=20),
        sparse_initializer,
        "sparse-initializer-beside",
    )

    def raw(proto: onnx.ModelProto) -> None:
        for initializer in proto.graph.initializer:
            array = numpy_helper.to_array(initializer)
            initializer.CopyFrom(numpy_helper.from_array(array, initializer.name))

    def missing(proto: onnx.ModelProto) -> None:
        for initializer in proto.graph.initializer:
            if initializer.name in ("w1", "w2", "scale", "b1"):
                count = int(np.prod(initializer.dims))
                initializer.ClearField("float_data")
                initializer.data_location = TensorProto.EXTERNAL
                for key, value in (("location", "not-there.bin"), ("offset", "0"), ("length", str(4 * count))):
                    entry = initializer.external_data.add()
                    entry.key, entry.value = key, value

    def short(proto: onnx.ModelProto) -> None:
        next(i for i in proto.graph.initializer if i.name == "b1").ClearField("float_data")

    base = edge("base", LAYER, CONSTANTS, opset=20)
    yield changed(base, raw, "initializers-raw")
    yield changed(base, short, "initializer-without-data")
    transposed = edge(
        "t",
        "w = Transpose(w2) m = MatMul(x, w) a = Add(m, b1) "
        + gelu("a", "h")
        + " n = MatMul(h, w2) k = Identity(b2) y = Add(n, k)",
        CONSTANTS,
        opset=20,
    )
    yield changed(transposed, raw, "initializers-transposed")
    missing_scale = edge(
        "m", layer_norm("x", "y") + " z = MatMul(y, w1)", CONSTANTS, opset=20, outputs="float[batch,seq,16] z"
    )
    yield changed(base, missing, "external-data-missing")
    yield changed(missing_scale, missing, "external-scale-missing")
    yield changed(transposed, missing, "external-transposed-missing")


def _damaged() -> Iterator[Edge]:
    base = edge("base", LAYER, CONSTANTS, opset=20)

    def unsorted(proto: onnx.ModelProto) -> None:
        nodes = list(proto.graph.node)[::-1]
        del proto.graph.node[:]
        proto.graph.node.extend(nodes)

    def cyclic(proto: onnx.ModelProto) -> None:
        proto.graph.node[0].input[0] = "y"

    def own_input(proto: onnx.ModelProto) -> None:
        proto.graph.node[1].input[1] = proto.graph.node[1].output[0]

    def no_imports(proto: onnx.ModelProto) -> None:
        del proto.opset_import[:]

    def only_vendor(proto: onnx.ModelProto) -> None:
        proto.opset_import[0].domain, proto.opset_import[0].version = "com.microsoft", 1

    def spelled(proto: onnx.ModelProto) -> None:
        proto.opset_import[0].domain = "ai.onnx"

    def spelled_nodes(proto: onnx.ModelProto) -> None:
        for node in proto.graph.node:
            node.domain = "ai.onnx"

    def spelled_both(proto: onnx.ModelProto) -> None:
        spelled(proto)
        spelled_nodes(proto)

    def spelled_twice(proto: onnx.ModelProto) -> None:
        proto.opset_import.append(helper.make_opsetid("ai.onnx", 20))

    def undefined(proto: onnx.ModelProto) -> None:
        proto.graph.node[1].input[1] = "nobody"

    def undefined_output(proto: onnx.ModelProto) -> None:
        proto.graph.output[0].name = "nobody"

    def no_nodes(proto: onnx.ModelProto) -> None:
        del proto.graph.node[:]

    def no_graph_name(proto: onnx.ModelProto) -> None:
        proto.graph.ClearField("name")

    def no_ir_version(proto: onnx.ModelProto) -> None:
        proto.ClearField("ir_version")

    def old_ir(proto: onnx.ModelProto) -> None:
        proto.ir_version = 3

    def twice(proto: onnx.ModelProto) -> None:
        proto.graph.node.append(proto.graph.node[-1])

    def training(proto: onnx.ModelProto) -> None:
        proto.training_info.add().algorithm.name = "train"

    def annotated(proto: onnx.ModelProto) -> None:
        annotation = proto.graph.quantization_annotation.add()
        annotation.tensor_name = "h"
        entry = annotation.quant_parameter_tensor_names.add()
        entry.key, entry.value = "SCALE_TENSOR", "eps"

    for change in (
        unsorted,
        cyclic,
        own_input,
        no_imports,
        only_vendor,
        spelled,
        spelled_nodes,
        spelled_both,
        spelled_twice,
        undefined,
        undefined_output,
        no_nodes,
        no_graph_name,
        no_ir_version,
        old_ir,
        twice,
        training,
        annotated,
    ):
        yield changed(base, change, f"model-{change.__name__.replace('_', '-')}")

    def inputs(operator: str, count: int) -> Callable[[onnx.ModelProto], None]:
        def change(proto: onnx.ModelProto) -> None:
            for node in proto.graph.node:
                if node.op_type == operator:
                    given = [*node.input, *node.input, *node.input][:count]
                    del node.input[:]
                    node.input.extend(given)

        return change

    every = f"{LAYER.replace('y =', 'y3 =')} s = Sigmoid(y3) k = Mul(y3, s) c = LayerNormalization(k, scale, shift) q = RMSNormalization(c, scale) t = Transpose<perm = [0, 2, 1]>(q) r = Relu(t) u = Transpose<perm = [0, 2, 1]>(r) g = Gelu(u) i = Identity(g) f = Cast<to = 1>(i) e2 = Exp(f) n2 = Neg(e2) y = Clip(n2, eps, one)"
    full = edge("base", every, CONSTANTS, opset=23)
    operators = sorted({node.op_type for node in full.proto.graph.node})
    for operator in operators:
        for count in (0, 1, 2, 3):
            yield changed(full, inputs(operator, count), f"{operator.lower()}-with-{count}-inputs")

        def emptied(proto: onnx.ModelProto, operator: str = operator) -> None:
            for node in proto.graph.node:
                if node.op_type == operator and len(node.input) > 1:
                    node.input[0] = ""

        def no_output(proto: onnx.ModelProto, operator: str = operator) -> None:
            for node in proto.graph.node:
                if node.op_type == operator:
                    del node.output[:]

        def attributes(proto: onnx.ModelProto, operator: str = operator) -> None:
            for node in proto.graph.node:
                if node.op_type == operator:
                    del node.attribute[:]
                    for key in (
                        "axis",
                        "epsilon",
                        "alpha",
                        "approximate",
                        "stash_type",
                        "perm",
                        "to",
                        "keepdims",
                        "transA",
                    ):
                        node.attribute.append(helper.make_attribute(key, "text"))

        def bare(proto: onnx.ModelProto, operator: str = operator) -> None:
            for node in proto.graph.node:
                if node.op_type == operator:
                    for key in ("axis", "epsilon", "alpha", "approximate", "stash_type", "perm", "to", "keepdims"):
                        node.attribute.append(onnx.AttributeProto(name=key))

        def other_domain(proto: onnx.ModelProto, operator: str = operator) -> None:
            for node in proto.graph.node:
                if node.op_type == operator:
                    node.domain = "someone.else"

        yield changed(full, emptied, f"{operator.lower()}-with-an-empty-input")
        yield changed(full, no_output, f"{operator.lower()}-without-outputs")
        yield changed(full, attributes, f"{operator.lower()}-with-attributes-of-text")
        yield changed(full, bare, f"{operator.lower()}-with-attributes-of-no-type")
        yield changed(full, other_domain, f"{operator.lower()}-of-another-domain")
