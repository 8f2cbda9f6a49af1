"""Workloads op_add, op_linear, op_linear_train: the cost of one tiny operation."""

import time

import common as C

OPS = ["op_add", "op_add_inplace", "op_linear", "op_linear_train"]
p = C.parser("op_add", ["raw", "raw_tuned"])
p.add_argument("--steps", type=int)
a = p.parse_args()
a.op = a.workload
torch = C.set_threads(a.threads or 1)
gpu = a.device.startswith("cuda")
if gpu and not torch.cuda.is_available():
    C.skip(a.op, a.impl, "no CUDA device")
torch.manual_seed(1234)
dev = a.device
x16, y16 = torch.ones(16, device=dev), torch.full((16,), 0.5, device=dev)
x, lin = torch.randn(8, 32).to(dev), torch.nn.Linear(32, 32).to(dev)
tuned = a.impl == "raw_tuned"


def op_add(n):
    for _ in range(n):
        z = x16 + y16
    return float(z.sum())


def op_add_inplace(n):
    z = torch.zeros(16, device=dev)
    for _ in range(n):
        z.add_(y16)
    return float(z[0]) / n


def op_linear(n):
    w, b, f = lin.weight, lin.bias, torch.nn.functional.linear
    with torch.inference_mode() if tuned else torch.no_grad():
        if tuned:
            for _ in range(n):
                z = f(x, w, b)
        else:
            for _ in range(n):
                z = lin(x)
    return float(z.double().sum())


def op_linear_train(n):
    w, b, f = lin.weight, lin.bias, torch.nn.functional.linear
    for _ in range(n):
        w.grad = b.grad = None
        z = (f(x, w, b) if tuned else lin(x)).sum()
        z.backward()
    return float(w.grad.double().sum())


f = globals()[a.op]
n = a.steps or (
    2000
    if a.tiny
    else {"op_add": 500000, "op_add_inplace": 500000, "op_linear": 200000, "op_linear_train": 50000}[a.op]
)
if a.op == "op_add" and tuned:

    def f(n):
        with torch.inference_mode():
            return op_add(n)


first = None
best = None
f(max(1, n // 10))
first = time.time() - C.PROCESS_START
if gpu:
    torch.cuda.synchronize()
t0 = time.perf_counter()
v = f(n)
if gpu:
    torch.cuda.synchronize()
sec = time.perf_counter() - t0
C.result(
    a.op,
    a.impl,
    n,
    sec,
    n,
    first,
    round(v, 5),
    round(v, 5),
    torch.get_num_threads(),
    ns_per_op=round(1e9 * sec / n, 1),
    device=a.device,
)
