"""Models of a few kilobytes that ask for endless time or memory: each is a way in which a file once did, or could."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL

Recipe = Callable[[], onnx.ModelProto]
RECIPES: dict[str, Recipe] = {}


def recipe(make: Recipe) -> Recipe:
    """Note a recipe under its name."""
    RECIPES[make.__name__] = make
    return make


def model_of(
    nodes: Sequence[onnx.NodeProto],
    *,
    result: str = "y",
    initializers: Sequence[onnx.TensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
    shape: Sequence[str | int] = ("batch", 8),
    dtype: int = FLOAT,
) -> onnx.ModelProto:
    """Return a model from ``x`` to a result of any shape."""
    graph = helper.make_graph(
        nodes,
        "hostile",
        [helper.make_tensor_value_info("x", FLOAT, shape)],
        [helper.make_tensor_value_info(result, dtype, None)],
        initializers,
    )
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions, ir_version=9)


def function(name: str, nodes: Sequence[onnx.NodeProto]) -> onnx.FunctionProto:
    """Return a function of one argument ``a`` and result ``b``."""
    return helper.make_function("own", name, ["a"], ["b"], nodes, OPSETS)


def number(name: str, value: object, dtype: type = np.float32) -> onnx.TensorProto:
    """Return an initializer."""
    return numpy_helper.from_array(np.asarray(value, dtype), name)


def sizes(name: str, *value: int) -> onnx.TensorProto:
    """Return an initializer of integers."""
    return number(name, value, np.int64)


def body(nodes: Sequence[onnx.NodeProto], result: str, dtype: int = FLOAT) -> onnx.GraphProto:
    """Return a body without inputs."""
    return helper.make_graph(nodes, "body", [], [helper.make_tensor_value_info(result, dtype, None)])


def nested(depth: int, both: bool) -> onnx.ModelProto:
    """Return ``If`` within ``If``; both branches hold the next one, or one of them."""

    def inside(level: int, path: str) -> onnx.GraphProto:
        if level == 0:
            return body([helper.make_node("Relu", ["x"], [f"r{path}"])], f"r{path}")
        other = f"o{path}"
        return body(
            [
                helper.make_node(
                    "If",
                    ["c"],
                    [f"r{path}"],
                    then_branch=inside(level - 1, path + "t"),
                    else_branch=inside(level - 1, path + "e")
                    if both
                    else body([helper.make_node("Neg", ["x"], [other])], other),
                )
            ],
            f"r{path}",
        )

    branch = inside(depth, "")
    return model_of([*branch.node, helper.make_node("Identity", ["r"], ["y"])], initializers=[number("c", True, bool)])


@recipe
def nested_if_deep() -> onnx.ModelProto:
    """An ``If`` in an ``If``, as deep as protobuf reads: a walk that visits each body twice takes 2^30 steps."""
    return nested(30, both=False)


@recipe
def nested_if_wide() -> onnx.ModelProto:
    """Two ``If`` in each: 1,000 bodies."""
    return nested(9, both=True)


@recipe
def doubled_constant() -> onnx.ModelProto:
    """60 times ``v = v + v`` from a constant."""
    nodes = [helper.make_node("Add", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(60)]
    return model_of([*nodes, helper.make_node("Mul", ["x", "v60"], ["y"])], initializers=[number("v0", 1.0)])


@recipe
def doubled_value() -> onnx.ModelProto:
    """60 times ``v = v * v`` and ``v = v + v`` from the input."""
    nodes = [helper.make_node("Add" if i % 2 else "Mul", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(60)]
    return model_of([helper.make_node("Tanh", ["x"], ["v0"]), *nodes, helper.make_node("Erf", ["v60"], ["y"])])


@recipe
def doubled_layouts() -> onnx.ModelProto:
    """A constant that is transposed and added to itself, over and over, before a product."""
    nodes = []
    for i in range(30):
        nodes += [
            helper.make_node("Transpose", [f"v{i}"], [f"t{i}"], perm=[1, 0]),
            helper.make_node("Add", [f"t{i}", f"v{i}"], [f"v{i + 1}"]),
        ]
    weights = numpy_helper.from_array(np.ones((8, 8), np.float32), "v0")
    return model_of([*nodes, helper.make_node("MatMul", ["x", "v30"], ["y"])], initializers=[weights])


def doubling_functions(depth: int, operator: str) -> onnx.ModelProto:
    """Return functions of which each calls the one before it twice."""
    functions = [function("f0", [helper.make_node(operator, ["a"], ["b"])])]
    for level in range(1, depth + 1):
        before = f"f{level - 1}"
        functions.append(
            function(
                f"f{level}",
                [
                    helper.make_node(before, ["a"], ["m"], domain="own"),
                    helper.make_node(before, ["m"], ["b"], domain="own"),
                ],
            )
        )
    return model_of([helper.make_node(f"f{depth}", ["x"], ["y"], domain="own")], functions=functions)


@recipe
def doubling_functions_small() -> onnx.ModelProto:
    """2^60 nodes where functions are inlined, of an operator that is told from none by itself."""
    return doubling_functions(60, "Relu")


@recipe
def doubling_functions_with_a_site() -> onnx.ModelProto:
    """The same of an operator that sites are made of."""
    return doubling_functions(60, "Sigmoid")


@recipe
def doubling_functions_to_a_million() -> onnx.ModelProto:
    """2^20 nodes: what could be inlined, and costs a minute."""
    return doubling_functions(20, "Sigmoid")


@recipe
def recursive_function() -> onnx.ModelProto:
    """A function that calls itself."""
    own = function("f", [helper.make_node("Sigmoid", ["a"], ["m"]), helper.make_node("f", ["m"], ["b"], domain="own")])
    return model_of([helper.make_node("f", ["x"], ["y"], domain="own")], functions=[own])


@recipe
def mutually_recursive_functions() -> onnx.ModelProto:
    """Two functions that call each other."""
    f = function("f", [helper.make_node("Sigmoid", ["a"], ["m"]), helper.make_node("g", ["m"], ["b"], domain="own")])
    g = function("g", [helper.make_node("f", ["a"], ["b"], domain="own")])
    return model_of([helper.make_node("f", ["x"], ["y"], domain="own")], functions=[f, g])


@recipe
def function_chain() -> onnx.ModelProto:
    """3,000 functions, each calling the next: deeper than Python's stack."""
    functions = [function("f0", [helper.make_node("Sigmoid", ["a"], ["b"])])]
    functions += [
        function(f"f{i}", [helper.make_node(f"f{i - 1}", ["a"], ["b"], domain="own")]) for i in range(1, 3000)
    ]
    return model_of([helper.make_node("f2999", ["x"], ["y"], domain="own")], functions=functions)


def loop(trips: int, operator: str = "Sigmoid", *, stacked: bool = False) -> onnx.ModelProto:
    """Return a loop that is always told to go on."""
    results = [helper.make_tensor_value_info(name, t, None) for name, t in (("going", BOOL), ("after", FLOAT))]
    nodes = [helper.make_node("Identity", ["on"], ["going"]), helper.make_node(operator, ["before"], ["after"])]
    if stacked:
        nodes.append(helper.make_node("Identity", ["after"], ["kept"]))
        results.append(helper.make_tensor_value_info("kept", FLOAT, None))
    inner = helper.make_graph(
        nodes,
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("on", BOOL, []),
            helper.make_tensor_value_info("before", FLOAT, None),
        ],
        results,
    )
    outputs = ["y", "stack"] if stacked else ["y"]
    return model_of(
        [helper.make_node("Loop", ["trips", "true", "x"], outputs, body=inner)],
        result=outputs[-1],
        initializers=[number("trips", trips, np.int64), number("true", True, bool)],
    )


@recipe
def endless_loop() -> onnx.ModelProto:
    """A loop of 2^62 rounds."""
    return loop(2**62)


@recipe
def endless_stacking_loop() -> onnx.ModelProto:
    """A loop that keeps what each of 2^62 rounds gives."""
    return loop(2**62, stacked=True)


@recipe
def endless_loop_before_a_site() -> onnx.ModelProto:
    """The same before a feed-forward, so that there is something to check."""
    model = loop(2**62)
    model.graph.node[0].output[0] = "looped"
    weights = [numpy_helper.from_array(np.ones(s, np.float32), n) for n, s in (("w1", (8, 16)), ("w2", (16, 8)))]
    model.graph.initializer.extend([*weights, number("b1", np.ones(16)), number("b2", np.ones(8))])
    model.graph.node.extend(
        [
            helper.make_node("MatMul", ["looped", "w1"], ["p"]),
            helper.make_node("Add", ["p", "b1"], ["h"]),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("MatMul", ["r", "w2"], ["q"]),
            helper.make_node("Add", ["q", "b2"], ["y"]),
        ]
    )
    return model


def chain(count: int, operators: Sequence[str]) -> onnx.ModelProto:
    """Return nodes in a row."""
    names = ["x", *(f"v{i}" for i in range(1, count)), "y"]
    nodes = [helper.make_node(operators[i % len(operators)], [names[i]], [names[i + 1]]) for i in range(count)]
    return model_of(nodes)


@recipe
def chain_of_relu() -> onnx.ModelProto:
    """20,000 nodes in a row."""
    return chain(20_000, ["Relu", "Neg"])


@recipe
def chain_of_casts() -> onnx.ModelProto:
    """20,000 Identity and Neg."""
    return chain(20_000, ["Identity", "Neg", "Sqrt", "Reciprocal"])


@recipe
def chain_of_sums() -> onnx.ModelProto:
    """5,000 times ``v = v + x``."""
    names = ["x", *(f"v{i}" for i in range(1, 5000)), "y"]
    return model_of([helper.make_node("Add", [names[i], "x"], [names[i + 1]]) for i in range(5000)])


@recipe
def wide_fan() -> onnx.ModelProto:
    """One value that 10,000 nodes read, summed in the end."""
    nodes = [helper.make_node("Mul", ["x", "x"], [f"v{i}"]) for i in range(10_000)]
    return model_of([*nodes, helper.make_node("Sum", [f"v{i}" for i in range(10_000)], ["y"])])


_HUGE = 10**12


def _used(nodes: Sequence[onnx.NodeProto], *initializers: onnx.TensorProto, dtype: int = FLOAT) -> onnx.ModelProto:
    return model_of([helper.make_node("Relu", ["x"], ["r"]), *nodes], initializers=list(initializers), dtype=dtype)


@recipe
def huge_constant_of_shape() -> onnx.ModelProto:
    """10^12 elements of ConstantOfShape, from a constant."""
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["z"]), helper.make_node("Add", ["z", "r"], ["y"])]
    return _used(nodes, sizes("s", _HUGE, 8))


@recipe
def huge_expand() -> onnx.ModelProto:
    """10^12 elements by Expand."""
    nodes = [helper.make_node("Expand", ["one", "s"], ["z"]), helper.make_node("Add", ["z", "r"], ["y"])]
    return _used(nodes, sizes("s", _HUGE, 8), number("one", [[1.0]]))


@recipe
def huge_range() -> onnx.ModelProto:
    """10^12 elements by Range."""
    nodes = [
        helper.make_node("Range", ["a", "b", "c"], ["z"]),
        helper.make_node("ReduceSum", ["z"], ["n"]),
        helper.make_node("Cast", ["n"], ["f"], to=FLOAT),
        helper.make_node("Add", ["f", "r"], ["y"]),
    ]
    return _used(nodes, *(number(n, v, np.int64) for n, v in (("a", 0), ("b", _HUGE), ("c", 1))))


@recipe
def huge_tile() -> onnx.ModelProto:
    """10^12 elements by Tile."""
    return _used([helper.make_node("Tile", ["r", "s"], ["y"])], sizes("s", _HUGE, 1))


@recipe
def huge_pad() -> onnx.ModelProto:
    """10^12 elements by Pad."""
    return _used([helper.make_node("Pad", ["r", "s"], ["y"])], sizes("s", _HUGE, 0, 0, 0))


@recipe
def huge_one_hot() -> onnx.ModelProto:
    """OneHot of a depth of 10^12."""
    nodes = [helper.make_node("Cast", ["r"], ["i"], to=INT64), helper.make_node("OneHot", ["i", "d", "v"], ["y"])]
    return _used(nodes, sizes("d", _HUGE), number("v", [0.0, 1.0]))


@recipe
def huge_resize() -> onnx.ModelProto:
    """Resize to 10^12 elements."""
    nodes = [
        helper.make_node("Unsqueeze", ["r", "a"], ["i"]),
        helper.make_node("Resize", ["i", "", "", "s"], ["y"], mode="nearest"),
    ]
    return _used(nodes, sizes("a", 0, 1), sizes("s", 1, 1, 10**6, 10**6))


@recipe
def huge_einsum() -> onnx.ModelProto:
    """An outer product of the input with itself, again and again."""
    nodes = [helper.make_node("Einsum", ["r", "r", "r", "r", "r"], ["y"], equation="ab,cd,ef,gh,ij->abcdefghij")]
    return _used(nodes)


@recipe
def growing_outer_products() -> onnx.ModelProto:
    """A row times its column, flattened, ten times: 8^1024 elements."""
    nodes = [helper.make_node("Reshape", ["r", "flat"], ["v0"])]
    for i in range(10):
        nodes += [
            helper.make_node("Unsqueeze", [f"v{i}", "one"], [f"c{i}"]),
            helper.make_node("Mul", [f"c{i}", f"v{i}"], [f"m{i}"]),
            helper.make_node("Reshape", [f"m{i}", "flat"], [f"v{i + 1}"]),
        ]
    return _used([*nodes, helper.make_node("Identity", ["v10"], ["y"])], sizes("flat", -1), sizes("one", 1))


@recipe
def growing_concat() -> onnx.ModelProto:
    """40 times ``v = concat(v, v)``."""
    nodes = [helper.make_node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(40)]
    return model_of([helper.make_node("Relu", ["x"], ["v0"]), *nodes, helper.make_node("Neg", ["v40"], ["y"])])


@recipe
def growing_constant() -> onnx.ModelProto:
    """40 times ``v = concat(v, v)`` of a constant: what constant folding would make."""
    nodes = [helper.make_node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], axis=0) for i in range(40)]
    nodes += [helper.make_node("ReduceSum", ["v40"], ["n"]), helper.make_node("Add", ["x", "n"], ["y"])]
    return model_of(nodes, initializers=[number("v0", [[1.0]])])


@recipe
def slow_product() -> onnx.ModelProto:
    """A product of two made matrices of 16,000 rows, which fit in memory and take minutes."""
    nodes = [
        helper.make_node("Expand", ["one", "s"], ["a"]),
        helper.make_node("MatMul", ["a", "a"], ["m"]),
        helper.make_node("MatMul", ["m", "a"], ["k"]),
        helper.make_node("ReduceSum", ["k"], ["n"]),
        helper.make_node("Add", ["n", "r"], ["y"]),
    ]
    return _used(nodes, sizes("s", 8000, 8000), number("one", [[1.0]]))


@recipe
def huge_declared_initializer() -> onnx.ModelProto:
    """An initializer that declares 10^12 elements and holds none."""
    return _used([helper.make_node("Add", ["r", "w"], ["y"])], TensorProto(name="w", data_type=FLOAT, dims=[_HUGE, 8]))


@recipe
def huge_declared_raw() -> onnx.ModelProto:
    """The same with four bytes of data."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[_HUGE, 8], raw_data=b"\0\0\0\0")
    return _used([helper.make_node("Add", ["r", "w"], ["y"])], tensor)


@recipe
def negative_declared_initializer() -> onnx.ModelProto:
    """An initializer of a negative size."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[-(2**62), 8], raw_data=b"\0\0\0\0")
    return _used([helper.make_node("Add", ["r", "w"], ["y"])], tensor)


@recipe
def overflowing_declared_initializer() -> onnx.ModelProto:
    """An initializer whose size overflows 64 bits to a small number."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[2**62, 2**62, 4], raw_data=b"\0\0\0\0")
    return _used([helper.make_node("Add", ["r", "w"], ["y"])], tensor)


@recipe
def huge_sparse_initializer() -> onnx.ModelProto:
    """A sparse initializer of 10^12 elements of which one is kept."""
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "w_indices")
    model = _used([helper.make_node("Add", ["r", "w"], ["y"])])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [_HUGE, 8]))
    return model


@recipe
def huge_sparse_constant() -> onnx.ModelProto:
    """The same as a Constant."""
    values = numpy_helper.from_array(np.ones(1, np.float32), "w")
    indices = numpy_helper.from_array(np.zeros(1, np.int64), "w_indices")
    sparse = helper.make_sparse_tensor(values, indices, [_HUGE, 8])
    nodes = [helper.make_node("Constant", [], ["w"], sparse_value=sparse), helper.make_node("Add", ["r", "w"], ["y"])]
    return _used(nodes)


@recipe
def huge_input() -> onnx.ModelProto:
    """An input that declares 10^12 elements."""
    return model_of([helper.make_node("Relu", ["x"], ["y"])], shape=[_HUGE, 8])


@recipe
def huge_input_squared() -> onnx.ModelProto:
    """An input of 20,000 by 20,000 numbers, times itself."""
    return model_of([helper.make_node("MatMul", ["x", "x"], ["y"])], shape=[20_000, 20_000])


@recipe
def many_axes() -> onnx.ModelProto:
    """An input of 40 named axes."""
    return model_of([helper.make_node("Relu", ["x"], ["y"])], shape=[f"a{i}" for i in range(40)])


@recipe
def arithmetic_of_axes() -> onnx.ModelProto:
    """An axis whose name is a tower of powers, and one of deep brackets."""
    return model_of(
        [helper.make_node("Relu", ["x"], ["y"])],
        shape=["batch*" * 5000 + "batch", "(" * 150 + "seq" + ")" * 150, "9**9**9**9"],
    )


@recipe
def long_names() -> onnx.ModelProto:
    """A node whose name has a million letters."""
    model = model_of([helper.make_node("Relu", ["x"], ["v" * 10**6]), helper.make_node("Neg", ["v" * 10**6], ["y"])])
    model.graph.node[0].name = "n" * 10**6
    model.graph.node[0].doc_string = "d" * 10**6
    return model


@recipe
def huge_attributes() -> onnx.ModelProto:
    """A transpose of 100,000 axes, and a slice of as many."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=list(range(100_000))),
        helper.make_node("Unsqueeze", ["t", "axes"], ["y"]),
    ]
    return model_of(nodes, initializers=[sizes("axes", *range(2, 100_000))])


@recipe
def huge_convolution() -> onnx.ModelProto:
    """A convolution with a padding of 10^6 on each side."""
    nodes = [
        helper.make_node("Unsqueeze", ["r", "a"], ["i"]),
        helper.make_node("Conv", ["i", "w"], ["y"], pads=[10**6] * 4),
    ]
    return _used(nodes, sizes("a", 0, 1), number("w", np.ones((1, 1, 3, 3))))


@recipe
def huge_gelu_tower() -> onnx.ModelProto:
    """Polynomials of polynomials: ``v = (v + 1) * v``, 40 times, in which GELU's spellings are looked for."""
    nodes = []
    for i in range(40):
        nodes += [
            helper.make_node("Add", [f"v{i}", "one"], [f"a{i}"]),
            helper.make_node("Mul", [f"a{i}", f"v{i}"], [f"v{i + 1}"]),
        ]
    nodes = [helper.make_node("Tanh", ["x"], ["v0"]), *nodes, helper.make_node("Tanh", ["v40"], ["y"])]
    return model_of(nodes, initializers=[number("one", 1.0)])


@recipe
def many_norms() -> onnx.ModelProto:
    """2,000 means of one value, of which none makes a norm."""
    nodes = []
    for i in range(2000):
        nodes += [
            helper.make_node("ReduceMean", ["x", "axis"], [f"m{i}"]),
            helper.make_node("Sub", ["x", f"m{i}"], [f"d{i}"]),
            helper.make_node("Mul", [f"d{i}", f"d{(i + 1) // 2}"], [f"s{i}"]),
        ]
    return model_of(
        [*nodes, helper.make_node("Sum", [f"s{i}" for i in range(2000)], ["y"])], initializers=[sizes("axis", -1)]
    )
