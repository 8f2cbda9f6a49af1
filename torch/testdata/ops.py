"""Writes ops.json and ops.safetensors: calls of every operator in cgotorch/ops.txt, with what PyTorch returns and its
gradients.

A case is an operator of the dispatcher with its arguments in the order of the schema (road one: torch.Call), and the
typed Go call that means the same (road two). Without go=..., that is the method or function of the case's name with
the same arguments.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import json

import torch
from goldenfile import save_file

here = pathlib.Path(__file__).parent
gen = torch.Generator().manual_seed(11)
cases, tensors, known = [], {}, {}


def R(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=gen).to(dtype)


def P(*shape):
    """positive"""
    return torch.rand(shape, generator=gen) + 0.25


def I(*values):
    return torch.tensor(values if len(values) != 1 or isinstance(values[0], int) else values[0])


class Gen(int):
    """a generator that starts at this seed"""


class MF(int):
    """a memory format by its number"""


def store(t):
    t = t.detach().resolve_conj().contiguous().clone()
    key = (
        t.dtype,
        tuple(t.shape),
        t.numpy().tobytes() if t.dtype != torch.bfloat16 else t.view(torch.int16).numpy().tobytes(),
    )
    if key not in known:
        known[key] = str(len(tensors))
        tensors[known[key]] = t
    return known[key]


def encode(a):
    if a is None:
        return None
    if isinstance(a, dict):
        return {"struct": {k: encode(v) for k, v in a.items()}}
    if isinstance(a, torch.Tensor):
        return {"tensor": store(a)}
    if isinstance(a, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in a):
        return {"tensors": [None if x is None else store(x) for x in a]}
    if isinstance(a, (list, tuple)):
        return {"ints": list(a)}
    if isinstance(a, Gen):
        return {"generator": int(a)}
    if isinstance(a, bool):
        return {"bool": a}
    if isinstance(a, int):
        return {"int": int(a)}
    if isinstance(a, float):
        return {"float": repr(a)}
    if isinstance(a, str):
        return {"string": a}
    if isinstance(a, torch.dtype):
        return {"dtype": str(a)[6:]}
    if isinstance(a, torch.device):
        return {"device": str(a)}
    raise TypeError(a)


def python(a):
    if isinstance(a, Gen):
        return torch.Generator().manual_seed(int(a))
    if isinstance(a, MF):
        return {0: torch.contiguous_format, 1: torch.preserve_format, 2: torch.channels_last}[int(a)]
    return a


def flat(r):
    if r is None:
        return []
    return [y for x in r for y in flat(x)] if isinstance(r, (list, tuple)) else [r]


def C(name, aten, *args, go=None, seed=None, rtol=0.0, grad=True, values=True, deterministic=False):
    """grad: whether gradients are compared, or the numbers of the arguments whose are; deterministic: under
    use_deterministic_algorithms
    """
    base, _, overload = aten.partition(".")
    op = getattr(getattr(torch.ops.aten, base), overload or "default")
    inplace = base.endswith("_")
    live, leaves = [], []
    for i, a in enumerate(args):
        if isinstance(a, torch.Tensor):
            x = a.clone()
            if (i in grad if isinstance(grad, tuple) else grad) and (x.is_floating_point() or x.is_complex()):
                x.requires_grad_()
                leaves.append((i, x))
            live.append(x.clone() if inplace and i == 0 else x)
        elif isinstance(a, (list, tuple)) and any(isinstance(x, torch.Tensor) for x in a):
            live.append([None if x is None else x.clone() for x in a])
        else:
            live.append(python(a))
    formal = op._schema.arguments
    positional = [v for v, f in zip(live, formal) if not f.kwarg_only]
    named = {f.name: v for v, f in zip(live, formal) if f.kwarg_only}
    if seed is not None:
        torch.manual_seed(seed)
    torch.use_deterministic_algorithms(deterministic)
    result = flat(op(*positional, **named))
    torch.use_deterministic_algorithms(False)
    out, grads, cotangents = [], {}, []
    roots = [r for r in result if isinstance(r, torch.Tensor) and r.requires_grad]
    for r in result:
        if not values:
            r = torch.zeros_like(r)  # whatever memory held, it would be other bytes each time
        out.append(encode(r.detach() if isinstance(r, torch.Tensor) else r))
    if roots:
        weights = [torch.linspace(0.5, 1.5, r.numel(), dtype=torch.float64).view(r.shape).to(r.dtype) for r in roots]
        torch.autograd.backward(roots, weights)
        cotangents = [store(w) for w in weights]
        grads = {str(i): store(x.grad) for i, x in leaves if x.grad is not None}
    case = {"op": name, "aten": "aten::" + aten, "args": [encode(a) for a in args], "out": out}
    if roots:
        case |= {"leaves": [i for i, _ in leaves], "cotangents": cotangents, "grads": grads}
    if go is not None:
        case["go"] = go
    if seed is not None:
        case["seed"] = seed
    if rtol:
        case["rtol"] = rtol
    if not values:
        case["shapeOnly"] = True
    if deterministic:
        case["deterministic"] = True
    cases.append(case)


def go(name, *args, on=None, options=None):
    """the typed call: on is the number of the argument that is the receiver"""
    call = {"name": name, "args": [{"arg": a.i} if isinstance(a, A) else encode(a) for a in args]}
    if on is not None:
        call["on"] = on
    if options is not None:
        call["options"] = {k: encode(v) for k, v in options.items()}
    return call


class A:
    """argument i of the case; with j, entry j of the list that it is"""

    def __init__(self, i, j=None):
        self.i = [i] if j is None else [i, j]


# --- arithmetic
x, y, row = R(3, 4), R(3, 4), R(4)
for n in ("Add", "Sub", "Mul", "Div"):
    a = n.lower()
    C(n, f"{a}.Tensor", x, row)
    C(n, f"{a}.Tensor", x.double(), y.double())
    C(n, f"{a}.Tensor", I(7, -8, 9), I(2, 3, -4))
    C(n, f"{a}.Tensor", x.bfloat16(), y.bfloat16())
    C(n + "Scalar", f"{a}.Scalar", x, 2.5)
    C(n + "Scalar", f"{a}.Scalar", I(1, 2, 3), 2)
    C(n + "_", f"{a}_.Tensor", x, row)
    if n != "Sub":
        C(n + "Scalar_", f"{a}_.Scalar", x, -1.5)
C("AddScalar", "add.Scalar", torch.tensor([True, False]), True)
C("AddScaled", "add.Tensor", x, row, 0.25)
C("AddScaled_", "add_.Tensor", x, row, -2.0)
C("RSubScalar", "rsub.Scalar", x, 1.5)
C("FloorDivide", "floor_divide", I(7, -7, 9), I(2, 2, -4))
C("FloorDivide", "floor_divide", R(5), P(5), grad=False)
C("Remainder", "remainder.Tensor", x, P(3, 4))
C("RemainderScalar", "remainder.Scalar", I(7, -7, 9), 4)
for n in "Neg Abs Sign Square Exp Expm1 Sin Cos Floor Ceil Round Erf ReLU SiLU Sigmoid Tanh IsNaN IsInf IsFinite LogicalNot".split():
    aten = {"IsNaN": "isnan", "IsInf": "isinf", "IsFinite": "isfinite", "LogicalNot": "logical_not"}.get(n, n.lower())
    C(n, aten, R(3, 5))
    C(n, aten, torch.tensor([0.0, -0.0, float("inf"), float("nan"), 2.5, -0.5, 1.5]), grad=False)
    C(n, aten, R(17, dtype=torch.float64))
for n in "Reciprocal Sqrt Rsqrt Log Log1p Log2".split():
    C(n, n.lower(), P(3, 5))
    C(n, n.lower(), torch.tensor([0.0, -1.0, float("inf"), float("nan")]), grad=False)
C("Pow", "pow.Tensor_Tensor", P(3), R(3))
C("PowScalar", "pow.Tensor_Scalar", x, 3)
C("PowScalar", "pow.Tensor_Scalar", P(4), 0.5)
C("Maximum", "maximum", x, y)
C("Minimum", "minimum", x, y)
C("Clamp", "clamp", x, -0.5, 0.5)
C("Clamp", "clamp", x, None, 0.1)
C("Clamp_", "clamp_", x, -0.2, None)
C("Lerp", "lerp.Scalar", x, y, 0.3)
C("AddCMul", "addcmul", x, y, row, 0.5)
C("AddCDiv", "addcdiv", x, y, P(4), 2.0)

# --- matrix products
C("MatMul", "matmul", R(2, 3), R(3, 4))
C("MatMul", "matmul", R(5, 2, 3), R(3, 4))
C("MatMul", "matmul", R(3), R(3))
C("MatMul", "matmul", R(2, 3, dtype=torch.float64), R(3, dtype=torch.float64))
C("MM", "mm", R(2, 3), R(3, 4))
C("BMM", "bmm", R(2, 2, 3), R(2, 3, 4))
C("AddMM", "addmm", R(4), R(2, 3), R(3, 4))
C("MV", "mv", R(2, 3), R(3))
C("Dot", "dot", R(5), R(5))
C("Outer", "outer", R(2), R(3))
C("Linear", "linear", R(2, 3), R(4, 3), R(4))
C("Linear", "linear", R(2, 5, 3), R(4, 3), None)

# --- comparison and logic
for n in "Eq Ne Lt Le Gt Ge".split():
    C(n, f"{n.lower()}.Tensor", I(1, 2, 3), I(3, 2, 1))
    C(n, f"{n.lower()}.Tensor", R(2, 3), R(3))
    C(n + "Scalar", f"{n.lower()}.Scalar", I(1, 2, 3), 2)
C("LogicalAnd", "logical_and", I(0, 1, 2, 0), I(0, 0, 3, 4))
C("LogicalOr", "logical_or", I(0, 1, 2, 0), I(0, 0, 3, 4))
C("Equal", "equal", x, x)
C("Equal", "equal", x, y)
C("AllClose", "allclose", x, x + 1e-6, 1e-5, 1e-8, False, grad=False)
C("AllClose", "allclose", x, y, 1e-5, 1e-8, True, grad=False)
mask = I([True, False, True, False])
C("Where", "where.self", mask, x, y)
C("MaskedFill", "masked_fill.Scalar", x, mask, 9.0)
C("MaskedFill_", "masked_fill_.Scalar", x, mask, -1.0)
C("MaskedSelect", "masked_select", x, mask)

# --- reductions
C("Sum", "sum", x, None)
C("Sum", "sum", torch.tensor([True, True]), None)
C("Sum", "sum", x, torch.float64)
C("SumDim", "sum.dim_IntList", x, [0], True, None)
C("SumDim", "sum.dim_IntList", x, None, False, None)
C("Mean", "mean", x, None)
C("MeanDim", "mean.dim", x, [-1], False, None)
C("Var", "var", x, True)
C("Std", "std", x, False)
C("Prod", "prod", R(4), None)
C("Max", "max", x)
C("Min", "min", x)
C("MaxDim", "max.dim", x, 1, False)
C("MinDim", "min.dim", x, 0, True)
C("AMax", "amax", x, [0], False)
C("AMin", "amin", x, [0, 1], True)
C("ArgMax", "argmax", x, 1, False)
C("ArgMin", "argmin", x, 0, True)
C("All", "all", I(1, 1, 0))
C("Any", "any", I(0, 1, 0))
C("CumSum", "cumsum", x, 1, None)
C("LogSumExp", "logsumexp", x, [1], False)
C("VectorNorm", "linalg_vector_norm", x, 2.0, go=go("Norm", 2.0, on=0))
C("VectorNorm", "linalg_vector_norm", x, float("inf"), go=go("Norm", float("inf"), on=0))
C("NormDim", "norm.ScalarOpt_dim", x, 2.0, [1], True)
C("TopK", "topk", x, 2, 1, True, True)
C("Sort", "sort", x, 0, True)
C("ArgSort", "argsort", x, 1, False)
C("NonZero", "nonzero", I([0, 2, 0], [3, 0, 4]))

# --- shape
C("View", "view", x, [2, -1])
C("Reshape", "reshape", x, [6, 2])
C("Flatten", "flatten.using_ints", R(2, 3, 4), 1, -1)
C("Transpose", "transpose.int", x, 0, -1)
C("T", "t", x)
C("Permute", "permute", R(2, 3, 4), [2, 0, 1])
C("Squeeze", "squeeze", R(1, 3, 1))
C("SqueezeDim", "squeeze.dim", R(1, 3, 1), 0)
C("Unsqueeze", "unsqueeze", x, -1)
C("Expand", "expand", R(3, 1), [2, -1, 4])
C("ExpandAs", "expand_as", R(1, 4), x)
C("Repeat", "repeat", R(2), [3, 2])
C("Select", "select.int", x, 1, -2)
C("Narrow", "narrow", x, 1, 1, 2)
C("Slice", "slice.Tensor", x, 1, 0, 4, 2)
C("Slice", "slice.Tensor", x, 1, None, None, 3, go=go("At", [], on=0) | {"ranges": [[None], [None, None, 3]]})
C("Split", "split.Tensor", R(7), 3, 0)
C("Chunk", "chunk", R(7), 3, 0)
C("Unbind", "unbind.int", x, 0)
C("Cat", "cat", [R(2, 3), R(1, 3)], 0)
C("Stack", "stack", [R(3), R(3)], 1)
C("Flip", "flip", x, [0, 1])
C("Roll", "roll", x, [1, -1], [0, 1])
C("Roll", "roll", x, [5], [])
C("Tril", "tril", x, -1)
C("Triu", "triu", x, 1)
C("Diag", "diag", R(3), 1)
C("Diag", "diag", R(3, 3), 0)
C("Contiguous", "contiguous", x, MF(0), go=go("Contiguous", on=0))
C("Contiguous", "contiguous", R(1, 2, 3, 3), MF(2), go=go("ContiguousIn", MF(2), on=0))
C("IndexSelect", "index_select", x, 1, I(0, 3, 3))
C("Index", "index.Tensor", x, [I(0, 2)], go=go("At", A(1, 0), on=0))
C("Index", "index.Tensor", x, [None, I(1, 1)], go=go("At", None, A(1, 1), on=0))
C("Index", "index.Tensor", R(4), [mask], go=go("At", A(1, 0), on=0))
C("IndexPut_", "index_put_", x, [I(0, 2)], R(2, 4), False, go=go("SetAt", A(2), A(1, 0), on=0))
C("Gather", "gather", x, 1, I([0, 1], [3, 2], [0, 0]))
C("Scatter_", "scatter_.src", x, 1, I([0, 1], [3, 2], [0, 1]), R(3, 2))
C("IndexAdd_", "index_add_", x, 0, I(0, 2), R(2, 4))
C("OneHot", "one_hot", I(0, 2, 1), -1)
C("Pad", "pad", x, [1, 2], "constant", 0.5, go=go("Pad", 0.5, [1, 2], on=0))

# --- activations and normalisation
C("ReLU_", "relu_", x)
C("LeakyReLU", "leaky_relu", x, 0.1)
C("GELU", "gelu", x, "none")
C("GELU", "gelu", x, "tanh")
C("Softplus", "softplus", x, 1, 20)
C("Softmax", "softmax.int", x, -1, None)
C("Softmax", "softmax.int", x, 0, torch.float64)
C("LogSoftmax", "log_softmax.int", x, 1, None)
C("Dropout", "dropout", R(50), 0.3, True, seed=5)
C("Dropout", "dropout", R(5), 0.3, False)
C("LayerNorm", "layer_norm", x, [4], R(4), R(4), 1e-5)
C("LayerNorm", "layer_norm", x, [3, 4], None, None, 1e-3)
bn = (R(4, 3, 5), R(3), R(3))
C(
    "BatchNorm",
    "batch_norm",
    *bn,
    torch.zeros(3),
    torch.ones(3),
    True,
    0.1,
    1e-5,
    True,
    go=go("BatchNorm", *map(A, range(1, 8)), on=0),
    grad=False,
)
C("BatchNorm", "batch_norm", *bn, None, None, True, 0.1, 1e-5, True, go=go("BatchNorm", *map(A, range(1, 8)), on=0))
C(
    "BatchNorm",
    "batch_norm",
    R(4, 3),
    None,
    None,
    R(3),
    P(3),
    False,
    0.1,
    1e-5,
    True,
    go=go("BatchNorm", *map(A, range(1, 8)), on=0),
    grad=False,
)
C("Embedding", "embedding", R(5, 3), I([0, 4], [2, 2]), 2, False, False, go=go("Embedding", A(0), A(2), on=1))
q, k, v = R(2, 2, 5, 4), R(2, 2, 6, 4), R(2, 2, 6, 4)
SDPA = "ScaledDotProductAttention"
C(
    "SDPA",
    "scaled_dot_product_attention",
    q,
    k,
    v,
    None,
    0.0,
    False,
    go=go(SDPA, A(1), A(2), None, 0.0, False, 0.0, on=0),
    rtol=1e-5,
)
C(
    "SDPA",
    "scaled_dot_product_attention",
    q,
    q + 1,
    q - 1,
    None,
    0.0,
    True,
    0.3,
    go=go(SDPA, A(1), A(2), None, 0.0, True, 0.3, on=0),
    rtol=1e-5,
)
C(
    "SDPA",
    "scaled_dot_product_attention",
    q,
    k,
    v,
    torch.ones(5, 6).tril().bool(),
    0.0,
    False,
    go=go(SDPA, A(1), A(2), A(3), 0.0, False, 0.0, on=0),
    rtol=1e-5,
)

# --- convolution, pooling, recurrent
C(
    "Conv1d",
    "conv1d",
    R(2, 3, 8),
    R(4, 3, 3),
    R(4),
    [2],
    [1],
    [1],
    1,
    go=go("Conv1d", A(1), A(2), {"Stride": [2], "Padding": [1]}, on=0),
)
C(
    "Conv2d",
    "conv2d",
    R(2, 4, 6, 7),
    R(6, 2, 3, 2),
    None,
    [1, 2],
    [1, 1],
    [2, 1],
    2,
    go=go("Conv2d", A(1), None, {"Stride": [1, 2], "Padding": [1], "Dilation": [2, 1], "Groups": 2}, on=0),
)
C(
    "Conv2d",
    "conv2d",
    R(1, 3, 8, 8),
    R(4, 3, 3, 3),
    R(4),
    [1, 1],
    [0, 0],
    [1, 1],
    1,
    go=go("Conv2d", A(1), A(2), {}, on=0),
)
C(
    "MaxPool2d",
    "max_pool2d",
    R(1, 2, 6, 6),
    [2, 2],
    [],
    [0, 0],
    [1, 1],
    False,
    go=go("MaxPool2d", {"Kernel": [2, 2]}, on=0),
)
C(
    "MaxPool2d",
    "max_pool2d",
    R(1, 2, 7, 7),
    [3],
    [2],
    [1],
    [1],
    True,
    go=go("MaxPool2d", {"Kernel": [3], "Stride": [2], "Padding": [1], "CeilMode": True}, on=0),
)
C(
    "AvgPool2d",
    "avg_pool2d",
    R(1, 2, 6, 6),
    [3, 3],
    [1, 1],
    [1, 1],
    False,
    True,
    None,
    go=go("AvgPool2d", {"Kernel": [3, 3], "Stride": [1, 1], "Padding": [1, 1]}, on=0),
)
C("AdaptiveAvgPool2d", "adaptive_avg_pool2d", R(1, 2, 5, 7), [2, 3])


def rnn(gates, inputs, hidden, directions):
    return [
        w
        for _ in range(directions)
        for w in (R(gates * hidden, inputs), R(gates * hidden, hidden), R(gates * hidden), R(gates * hidden))
    ]


for directions in (1, 2):
    h, c = R(directions, 2, 4), R(directions, 2, 4)
    options = {"HasBiases": True, "Layers": 1, "Training": True, "Bidirectional": directions == 2}
    C(
        "LSTM",
        "lstm.input",
        R(5, 2, 3),
        [h, c],
        rnn(4, 3, 4, directions),
        True,
        1,
        0.0,
        True,
        directions == 2,
        False,
        go=go("LSTM", A(1, 0), A(1, 1), A(2), options, on=0),
        rtol=1e-5,
    )
    C(
        "GRU",
        "gru.input",
        R(2, 5, 3),
        h,
        rnn(3, 3, 4, directions),
        True,
        1,
        0.0,
        True,
        directions == 2,
        True,
        go=go("GRU", A(1), A(2), options | {"BatchFirst": True}, on=0),
        rtol=1e-5,
    )

# --- losses
logits, classes = R(5, 3), I(0, 2, 1, -100, 2)
for reduction in (0, 1, 2):
    C("CrossEntropyLoss", "cross_entropy_loss", logits, classes, None, reduction, -100, 0.0)
    C("MSELoss", "mse_loss", x, y, reduction)
    C("L1Loss", "l1_loss", x, y, reduction)
    C("NLLLoss", "nll_loss", logits.log_softmax(1), classes, None, reduction, -100)
    C(
        "BCEWithLogits",
        "binary_cross_entropy_with_logits",
        x,
        y.sigmoid(),
        None,
        None,
        reduction,
        go=go("BinaryCrossEntropyWithLogits", *map(A, range(1, 5)), on=0),
    )
C("CrossEntropyLoss", "cross_entropy_loss", logits, I(0, 2, 1, 0, 2), P(3), 1, -100, 0.1, grad=(0,))
C(
    "BCEWithLogits",
    "binary_cross_entropy_with_logits",
    x,
    y.sigmoid(),
    P(3, 4),
    P(4),
    1,
    go=go("BinaryCrossEntropyWithLogits", *map(A, range(1, 5)), on=0),
    grad=(0,),
)
ctc = (R(6, 2, 4).log_softmax(2), I([1, 2, 2], [3, 1, 1]), I(6, 5), I(3, 2))
for reduction in (0, 1, 2):
    C("CTCLoss", "ctc_loss.Tensor", *ctc, 0, reduction, True, rtol=1e-5)

# --- creation and random
cpu = torch.device("cpu")
f64, i64 = torch.float64, torch.int64
O = {"DType": f64}
C("Empty", "empty.memory_format", [2, 3], f64, go=go("Empty", [2, 3], options=O), values=False)
C("Empty", "empty.memory_format", [2, 3], go=go("Empty", [2, 3]), values=False)
C("Zeros", "zeros", [2, 3], f64, go=go("Zeros", [2, 3], options=O))
C("Zeros", "zeros", [], go=go("Zeros", []))
C("Ones", "ones", [2], i64, go=go("Ones", [2], options={"DType": i64}))
C("Ones", "ones", [2], go=go("Ones", [2]))
C("Full", "full", [2], 2.5, f64, go=go("Full", 2.5, [2], options=O))
C("Full", "full", [2], 7, go=go("Full", 7, [2]))
C("Full", "full", [2], True, go=go("Full", True, [2]))
C("Eye", "eye", 3, f64, go=go("Eye", 3, options=O))
C("Eye", "eye", 2, go=go("Eye", 2))
C("Arange", "arange.start_step", 0, 5, 1, go=go("Arange", 5))
C("Arange", "arange.start_step", 1.0, 2.0, 0.25, f64, go=go("Arange", 1.0, 2.0, 0.25, options=O))
C("Linspace", "linspace", -1, 1, 5, go=go("Linspace", -1, 1, 5))
C("Linspace", "linspace", 0.0, 1.0, 4, f64, go=go("Linspace", 0.0, 1.0, 4, options=O))
G = {"Generator": Gen(3)}
C("Rand", "rand.generator", [2, 3], Gen(3), go=go("Rand", [2, 3], options=G))
C("Rand", "rand.generator", [2, 3], None, go=go("Rand", [2, 3]), seed=9)
C("Randn", "randn.generator", [2, 20], Gen(3), f64, go=go("Randn", [2, 20], options=G | O))
C("Randn", "randn.generator", [2, 3], None, go=go("Randn", [2, 3]), seed=9)
C("Randint", "randint.low_generator", -5, 50, [9], Gen(3), i64, go=go("RandInt", -5, 50, [9], options=G))
C("Randint", "randint.low_generator", 0, 10, [9], None, i64, go=go("RandInt", 0, 10, [9]), seed=1)
C("RandPerm", "randperm.generator", 10, Gen(3), i64, go=go("RandPerm", 10, options=G))
C("RandPerm", "randperm.generator", 10, None, i64, go=go("RandPerm", 10), seed=2)
C("EmptyLike", "empty_like", x, values=False)
C("ZerosLike", "zeros_like", x)
C("OnesLike", "ones_like", I(1, 2))
C("FullLike", "full_like", x, 2.5)
C("RandLike", "rand_like", x, seed=4)
C("RandnLike", "randn_like", x, seed=4)
C("Clone", "clone", x)
C("To", "to.dtype_layout", x, f64, None, None, None, False, False, go=go("To", O, on=0))
C("To", "to.dtype_layout", x, None, None, cpu, None, False, False, go=go("ToDevice", cpu, on=0))
C("To", "to.dtype_layout", x, None, None, cpu, None, False, False, go=go("CPU", on=0))
C(
    "To",
    "to.dtype_layout",
    R(1, 2, 3, 3),
    None,
    None,
    None,
    None,
    False,
    True,
    MF(2),
    go=go("InMemoryFormat", MF(2), on=0),
)
C("ToDType", "to.dtype", x, torch.bfloat16, go=go("ToDType", torch.bfloat16, on=0))
C("ToDType", "to.dtype", R(4) * 10, torch.int32, go=go("ToDType", torch.int32, on=0))
C("Detach", "detach", x)
C("Copy_", "copy_", x, row)
C("Copy_", "copy_", x, y.double())
C("Zero_", "zero_", x, grad=False)
C("Fill_", "fill_.Scalar", x, 1.5, grad=False)
C("Uniform_", "uniform_", R(30), -1.0, 2.0, Gen(6), grad=False)
C("Normal_", "normal_", R(30), 1.0, 2.0, Gen(6), grad=False)
C("Bernoulli_", "bernoulli_.float", R(30), 0.3, Gen(6), grad=False)
C("Random_", "random_", torch.zeros(9, dtype=i64), Gen(6))
C("RandomFrom_", "random_.from", torch.zeros(9, dtype=i64), -3, 12, Gen(6))
C("Multinomial", "multinomial", P(2, 6), 3, False, Gen(6))
C("Item", "item", torch.tensor([[2.5]]), grad=False)
C("Item", "item", torch.tensor(7))
C("Item", "item", torch.tensor(True))

# --- more of everything: elementwise
inf, nan = float("inf"), float("nan")
edges = torch.tensor([0.0, -0.0, inf, -inf, nan, 2.5, -0.5])
for n in "Exp2 Tan Atan Sinh Cosh Asinh Sinc Deg2Rad Rad2Deg Erfc LGamma Digamma Trunc Frac SignBit Angle".split():
    aten = n.lower()
    C(n, aten, P(3, 5))
    C(n, aten, edges, grad=False)
    C(n, aten, R(9, dtype=torch.float64))
for n in "Asin Acos Atanh ErfInv".split():
    C(n, n.lower(), R(3, 5).tanh())
    C(n, n.lower(), torch.tensor([0.0, -1.0, 1.0, 2.0, nan]), grad=False)
for n in "Log10 Acosh".split():
    C(n, n.lower(), P(3, 5) + 1)
    C(n, n.lower(), torch.tensor([0.0, -1.0, 1.0, inf, nan]), grad=False)
for n, aten in {
    "Atan2": "atan2",
    "Hypot": "hypot",
    "LogAddExp": "logaddexp",
    "LogAddExp2": "logaddexp2",
    "CopySign": "copysign.Tensor",
}.items():
    C(n, aten, x, row)
    C(n, aten, x.double(), y.double())
    C(n, aten, edges, edges.flip(0), grad=False)
C("XLogY", "xlogy.Tensor", x, P(4))
C("XLogY", "xlogy.Tensor", torch.tensor([0.0, 0.0, 1.0]), torch.tensor([0.0, nan, 0.0]), grad=False)
C("Logit", "logit", x.sigmoid(), None)
C("Logit", "logit", torch.tensor([0.0, 0.3, 1.0]), 0.01)
C("FMod", "fmod.Tensor", x, row)
C("FMod", "fmod.Tensor", I(7, -7, 9), I(2, 2, -4))
C("FModScalar", "fmod.Scalar", I(7, -7, 9), 4)
C("Heaviside", "heaviside", torch.tensor([-1.0, 0.0, 2.0]), torch.tensor(0.5), grad=False)
C("NanToNum", "nan_to_num", edges, None, None, None)
C("NanToNum", "nan_to_num", edges, 1.5, 9.0, None)
C("LerpTensor", "lerp.Tensor", x, y, P(4))
C("ClampTensor", "clamp.Tensor", x, row, None, grad=(0,))
C("ClampTensor", "clamp.Tensor", x, -P(4), P(4))
for n, aten in {
    "BitwiseAnd": "bitwise_and.Tensor",
    "BitwiseOr": "bitwise_or.Tensor",
    "BitwiseXor": "bitwise_xor.Tensor",
}.items():
    C(n, aten, I(12, -7, 9), I(10, 3, -4))
    C(n, aten, I([True, False]), I([True, True]))
C("BitwiseNot", "bitwise_not", I(0, 5, -3))
C("BitwiseNot", "bitwise_not", I([True, False]))
C("BitwiseLeftShift", "bitwise_left_shift.Tensor", I(1, 5, -3), I(4, 1, 2))
C("BitwiseRightShift", "bitwise_right_shift.Tensor", I(64, 5, -30), I(4, 1, 2))
C("LogicalXor", "logical_xor", I(0, 1, 2, 0), I(0, 0, 3, 4))
C("IsClose", "isclose", torch.tensor([1.0, 2.0, nan]), torch.tensor([1.0, 2.1, nan]), 1e-5, 1e-8, True, grad=False)
C("IsIn", "isin.Tensor_Tensor", I(1, 2, 3, 4), I(4, 2), go=go("IsIn", A(1), on=0))
C("MaskedScatter", "masked_scatter", x, mask, R(3, 2))

# --- products
C("BAddBMM", "baddbmm", R(2, 2, 4), R(2, 2, 3), R(2, 3, 4), 0.5, 2.0)
C("AddMV", "addmv", R(2), R(2, 3), R(3), 1, 0.5)
C("Addr", "addr", R(2, 3), R(2), R(3), 2, 1)
C("Kron", "kron", R(2, 2), R(2, 3))
C("Einsum", "einsum", "bij,bjk->bik", [R(2, 2, 3), R(2, 3, 4)])
C("Einsum", "einsum", "ii", [R(3, 3)])
C("CDist", "cdist", R(3, 4), R(5, 4), 2.0, None)
C("CDist", "cdist", R(2, 3, 4), R(2, 5, 4), 1.0, None)

# --- reductions
C("VarDim", "var.dim", x, [1], True, False)
C("VarDim", "var.dim", x, None, False, True)
C("StdDim", "std.dim", x, [0, 1], True, False)
C("VarMean", "var_mean.dim", x, [1], False, True)
C("ProdDim", "prod.dim_int", x, 1, True, None)
C("ProdDim", "prod.dim_int", I([1, 2], [3, 4]), 0, False, torch.float64)
C("AllDim", "all.dim", I([1, 0], [2, 3]), 1, False)
C("AnyDim", "any.dim", I([0, 0], [2, 0]), 0, True)
C("AMinMax", "aminmax", x, 1, False, grad=False)
C("AMinMax", "aminmax", x, None, False, grad=False)
C("CountNonZero", "count_nonzero", I([0, 2], [3, 4]), None)
C("CountNonZero", "count_nonzero", I([0, 2], [3, 4]), 1)
C("Median", "median", x)
C("MedianDim", "median.dim", x, 1, True)
C("NanMedian", "nanmedian", torch.tensor([3.0, nan, 1.0]), grad=False)
C("Mode", "mode", torch.tensor([[1.0, 2.0, 2.0], [3.0, 3.0, 1.0]]), -1, False)
C("KthValue", "kthvalue", x, 2, 1, False)
for how in ("linear", "lower", "higher", "midpoint", "nearest"):
    C("Quantile", "quantile", x, torch.tensor([0.25, 0.6]), 1, True, how, grad=(0,))
    C("QuantileScalar", "quantile.scalar", x, 0.3, None, False, how)
holes = torch.tensor([[1.0, nan, 2.0], [nan, 4.0, 6.0]])
C("NanMean", "nanmean", holes, [1], False, None)
C("NanMean", "nanmean", holes, None, False, torch.float64)
C("NanSum", "nansum", holes, [0], True, None)
C("CumProd", "cumprod", x, 0, None)
C("CumMax", "cummax", x, 1)
C("CumMin", "cummin", x, 0)
C("LogCumSumExp", "logcumsumexp", x, 1)
C("Diff", "diff", x, 1, -1, None, None)
C("Diff", "diff", x, 2, 0, y, None)
C("Unique", "_unique2", I(3, 1, 3, 2), True, True, True)
C("Unique", "_unique2", I(3, 1, 3, 2), True, False, False)
C("UniqueDim", "unique_dim", I([3, 1], [2, 2], [3, 1]), 0, True, True, True)
C("UniqueConsecutive", "unique_consecutive", I(1, 1, 2, 1), True, True, None)
C("UniqueConsecutive", "unique_consecutive", I([1, 1], [1, 1], [2, 1]), False, True, 0)
C("HistC", "histc", x, 4, 0, 0, grad=False)
C("HistC", "histc", x, 5, -1.0, 1.0, grad=False)
C("BinCount", "bincount", I(0, 3, 3, 1), None, 6)
C("BinCount", "bincount", I(0, 3, 3, 1), P(4), 0, grad=False)
steps = torch.tensor([1.0, 2.0, 4.0])
C(
    "SearchSorted",
    "searchsorted.Tensor",
    steps,
    torch.tensor([2.0, 3.0, 9.0]),
    False,
    True,
    go=go("SearchSorted", A(1), True, on=0),
    grad=False,
)
C(
    "Bucketize",
    "bucketize.Tensor",
    torch.tensor([2.0, 3.0, 9.0]),
    steps,
    False,
    False,
    go=go("Bucketize", A(1), False, on=0),
    grad=False,
)
C("Trace", "trace", R(3, 3))
C("Cov", "cov", x, 1, None, None)
C("Cov", "cov", x, 0, I(1, 2, 1, 3), P(4), grad=(0,))
C("CorrCoef", "corrcoef", x)

# --- scatter, gather, index
C("IndexFill_", "index_fill_.int_Scalar", x, 1, I(0, 2), 9.0)
C("IndexCopy_", "index_copy_", x, 0, I(2, 0), R(2, 4))
C("IndexPut", "index_put", x, [I(0, 2), I(1, 3)], R(2), False)
C("IndexPut", "index_put", x, [I(1, 1)], R(2, 4), True)
C("IndexPut", "index_put", x, [None, I(1, 1)], R(3, 2), True)
C("Put_", "put_", x, I(0, 5), R(2), False)
C("Put_", "put_", x, I(5, 5), R(2), True)
C("Take", "take", x, I([0, 11], [3, 3]))
C("TakeAlongDim", "take_along_dim", x, I([0], [3], [1]), 1)
C("TakeAlongDim", "take_along_dim", x, I(11, 0), None)
C("ScatterAdd_", "scatter_add_", x, 1, I([0, 0], [3, 2], [1, 1]), R(3, 2))
C("ScatterValue_", "scatter_.value", x, 1, I([0, 1], [3, 2], [0, 1]), -2.0)
for how in ("sum", "prod", "mean", "amax", "amin"):
    C("ScatterReduce", "scatter_reduce.two", x, 1, I([0, 0], [3, 2], [1, 1]), R(3, 2), how, how != "mean")

# --- shape
C("Diagonal", "diagonal", R(2, 3, 4), 1, 1, 2)
C("DiagEmbed", "diag_embed", R(2, 3), -1, 0, 2)
C("MoveDim", "movedim.int", R(2, 3, 4), 0, -1)
C("SwapAxes", "swapaxes", R(2, 3, 4), 0, 2)
C("Unflatten", "unflatten.int", R(2, 6), 1, [3, -1])
C("BroadcastTo", "broadcast_to", R(3, 1), [2, 3, 4])
C("Tile", "tile", R(2, 2), [3])
C("RepeatInterleave", "repeat_interleave.self_int", x, 2, 1, None, go=go("RepeatInterleave", 2, 1, on=0))
C("RepeatInterleave", "repeat_interleave.self_int", x, 3, None, None, go=go("RepeatInterleave", 3, None, on=0))
C(
    "RepeatInterleaveTensor",
    "repeat_interleave.self_Tensor",
    x,
    I(2, 0, 1),
    0,
    None,
    go=go("RepeatInterleaveTensor", A(1), 0, on=0),
)
C("Unfold", "unfold", R(2, 7), 1, 3, 2)
C("Rot90", "rot90", x, 1, [0, 1])
C("Rot90", "rot90", R(2, 3, 2), -1, [1, 2])
C("HStack", "hstack", [R(2, 3), R(2, 1)])
C("VStack", "vstack", [R(3), R(2, 3)])
C("BlockDiag", "block_diag", [R(2, 1), R(1, 2)])
C("Meshgrid", "meshgrid.indexing", [R(2), R(3)], "ij")
C("Meshgrid", "meshgrid.indexing", [R(2), R(3)], "xy")
C("TensorSplit", "tensor_split.sections", R(7, 2), 3, 0)
C("TensorSplitAt", "tensor_split.indices", R(2, 7), [2, 5], 1)
C("AsStrided", "as_strided", R(12), [2, 3], [4, 1], 2)
C("AsStrided", "as_strided", R(12), [5, 3], [2, 1], None)

# --- linear algebra: LAPACK's results agree to rounding, not to the last bit, between processors
square = R(3, 3) + 3 * torch.eye(3)
spd = square @ square.T + torch.eye(3)
sym = torch.tensor([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 3.0]])
LA = {"rtol": 1e-5}
C("Inv", "linalg_inv", square, **LA)
C("Inv", "linalg_inv", torch.stack([square, spd]).double(), **LA)
C("Det", "linalg_det", square, **LA)
C("SLogDet", "linalg_slogdet", -square, **LA)
C("Solve", "linalg_solve", square, R(3, 2), True, **LA)
C("Solve", "linalg_solve", square, R(2, 3), False, **LA)
C("SolveTriangular", "linalg_solve_triangular", square.triu(), R(3, 2), True, True, False, **LA)
# gelsy takes the columns that go first from memory that nobody has written, so that two calls end a few last bits
# apart; deterministic algorithms write it.
C(
    "LstSq",
    "linalg_lstsq",
    R(5, 3),
    R(5, 2),
    None,
    None,
    go=go("LstSq", A(1), None, "", on=0),
    grad=False,
    deterministic=True,
    **LA,
)
C("LstSq", "linalg_lstsq", R(5, 3), R(5, 2), 1e-6, "gelsd", grad=False, **LA)
C("Cholesky", "linalg_cholesky", spd, False, **LA)
C("Cholesky", "linalg_cholesky", spd.double(), True, **LA)
C("QR", "linalg_qr", R(4, 3), "reduced", **LA)
C("QR", "linalg_qr", R(4, 3), "complete", grad=False, **LA)
C("SVD", "linalg_svd", R(4, 3), False, None, go=go("SVD", False, on=0), grad=False, **LA)
C("SVDVals", "linalg_svdvals", R(4, 3), None, **LA)
C("EigH", "linalg_eigh", sym, "L", grad=False, **LA)
C("EigValsH", "linalg_eigvalsh", sym, "U", **LA)
for order in (1, -1, 2, -2, inf, -inf):
    C("MatrixNorm", "linalg_matrix_norm", R(4, 3), order, [-2, -1], False, None, **LA)
for order in ("fro", "nuc"):
    C("MatrixNormNamed", "linalg_matrix_norm.str_ord", R(2, 4, 3), order, [1, 2], True, None, **LA)
C("MatrixPower", "linalg_matrix_power", square, 3, **LA)
C("MatrixPower", "linalg_matrix_power", square, -1, **LA)
C("MatrixExp", "linalg_matrix_exp", R(3, 3), **LA)
C("PInv", "linalg_pinv.atol_rtol_float", R(4, 3), None, None, False, **LA)
C("PInv", "linalg_pinv.atol_rtol_float", sym, 1e-6, 0.0, True, **LA)
C("Cross", "linalg_cross", R(2, 3), R(2, 3), -1)

# --- Fourier transforms and complex numbers
z = torch.complex(R(3, 4), R(3, 4))
FT = {"rtol": 1e-5}
C("FFT", "fft_fft", z, None, -1, None, go=go("FFT", None, -1, "", on=0), **FT)
C("FFT", "fft_fft", x, 6, 0, "ortho", **FT)
C("IFFT", "fft_ifft", z, 3, 1, "forward", **FT)
C("RFFT", "fft_rfft", R(2, 9), None, -1, "backward", **FT)
C("IRFFT", "fft_irfft", z, 7, -1, None, go=go("IRFFT", 7, -1, "", on=0), **FT)
C("FFT2", "fft_fft2", z, None, [-2, -1], None, go=go("FFT2", None, [-2, -1], "", on=0), **FT)
C("IFFT2", "fft_ifft2", z, [2, 4], [0, 1], "ortho", **FT)
C("FFTShift", "fft_fftshift", x, None)
C("FFTShift", "fft_fftshift", x, [1])
C("IFFTShift", "fft_ifftshift", R(5), [0])
for n, aten in {
    "Real": "real",
    "Imag": "imag",
    "Angle": "angle",
    "Conj": "conj",
    "ResolveConj": "resolve_conj",
    "ViewAsReal": "view_as_real",
}.items():
    C(n, aten, z)
C("Abs", "abs", z)
C("Mul", "mul.Tensor", z, z.conj())
C("ViewAsComplex", "view_as_complex", R(3, 2))
C("Complex", "complex", R(4), R(4))
C("Polar", "polar", P(4), R(4))

# --- random
C("Bernoulli", "bernoulli", torch.rand(30, generator=gen), Gen(6), grad=False)
C("Poisson", "poisson", P(30) * 8, Gen(6), grad=False)
C("Exponential_", "exponential_", R(30), 1.5, Gen(6), grad=False)
C("LogNormal_", "log_normal_", R(30), 0.5, 0.25, Gen(6), grad=False)
C("Geometric_", "geometric_", R(30), 0.4, Gen(6), grad=False)
C("Cauchy_", "cauchy_", R(30), 0.5, 2.0, Gen(6), grad=False)
C("RandIntLike", "randint_like.low_dtype", x, -3, 12, seed=8, grad=False)
C("RandIntLike", "randint_like.low_dtype", I(1, 2, 3), 0, 7, seed=8)

save_file(tensors, here / "ops.safetensors")
os.chmod(here / "ops.safetensors", 0o644)

lines = ",\n".join(json.dumps(c) for c in cases)
(here / "ops.json").write_text('{"torch": "%s", "cases": [\n%s\n]}\n' % (torch.__version__.split("+")[0], lines))
print(len(cases), "cases,", len(tensors), "tensors,", os.path.getsize(here / "ops.safetensors"), "bytes")
