"""What an operator costs in Python: prints a line "name<TAB>nanoseconds" for each case of main.go, under the same
names.
"""

import timeit

import torch
import torch.nn.functional as F

x, y, m, w, b = torch.randn(16), torch.randn(16), torch.randn(8, 32), torch.randn(32, 32), torch.randn(32)
large, i, image, filters = torch.randn(65536), torch.arange(8), torch.randn(1, 3, 8, 8), torch.randn(4, 3, 3, 3)
gain, shift, mean, var = torch.ones(32), torch.zeros(32), torch.zeros(32), torch.ones(32)
logits, square, acc, foreach = (
    torch.randn(8, 10),
    torch.randn(8, 8),
    torch.zeros(16),
    [torch.randn(16) for _ in range(20)],
)
by_name = torch.ops.aten.add.Tensor
tx, ty = torch.randn(8, 32), torch.randn(8, 1)
w1, b1, w2, b2 = (
    t.requires_grad_() for t in (torch.randn(32, 32), torch.zeros(32), torch.randn(1, 32), torch.zeros(1))
)


def mlp():
    for p in (w1, b1, w2, b2):
        p.grad = None
    F.mse_loss(F.linear(F.relu(F.linear(tx, w1, b1)), w2, b2), ty).backward()


def measure(name, statement):
    """prints the least time of seven rounds of about 5 ms"""
    timer = timeit.Timer(statement, globals=globals())
    n = 1
    while timer.timeit(n) < 5e-3:
        n *= 2
    print(f"{name}\t{min(timer.repeat(7, n)) / n * 1e9:.1f}")


with torch.no_grad():
    measure("add", "x + y")
    measure("mul by a number", "x * 2.0")
    measure("relu", "torch.relu(x)")
    measure("exp", "torch.exp(x)")
    measure("add, 65536", "large + large")
    measure("sum", "x.sum()")
    measure("mean of rows", "m.mean(1)")
    measure("argmax of rows", "m.argmax(1)")
    measure("select a row", "m.select(0, 3)")
    measure("index_select", "m.index_select(0, i)")
    measure("gather", "m.gather(1, i.view(8, 1))")
    measure("view", "m.view(4, 64)")
    measure("transpose", "m.transpose(0, 1)")
    measure("cat of 2", "torch.cat([m, m])")
    measure("mm 8x8", "torch.mm(square, square)")
    measure("linear 8x32x32", "F.linear(m, w, b)")
    measure("conv2d 3x8x8, 4 filters", "F.conv2d(image, filters, None, 1, 1)")
    measure("layer_norm", "F.layer_norm(m, (32,), gain, shift, 1e-5)")
    measure("batch_norm", "F.batch_norm(m, mean, var, gain, shift, True, 0.1, 1e-5)")
    measure("softmax", "torch.softmax(m, 1)")
    measure("cross_entropy", "F.cross_entropy(logits, i)")
    measure("zeros", "torch.zeros(16)")
    measure("randn", "torch.randn(16)")
    measure("add_", "acc.add_(y)")
    measure("zero_", "acc.zero_()")
    measure("_foreach_mul_, 20 tensors", "torch._foreach_mul_(foreach, 0.99)")
    measure("add by name", "by_name(x, y)")
measure("MLP of 2 layers", "mlp()")
