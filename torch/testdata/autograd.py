"""Writes autograd.safetensors: gradients of checkpoints, custom functions, hooks and gradients of gradients."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
import torch.nn.functional as F
from goldenfile import save_file
from torch.utils.checkpoint import checkpoint

out = {}
torch.manual_seed(3)
x0 = torch.randn(4, 6)
weights = [torch.randn(6, 6) * 0.4 for _ in range(3)]
out["x"] = x0
for i, w in enumerate(weights):
    out[f"w{i}"] = w


def checkpointed(reentrant, autocast=False):
    """Three residual blocks with dropout, the second within the third's checkpoint; the third is given two tensors."""
    x = x0.clone().requires_grad_()
    ws = [w.clone().requires_grad_() for w in weights]
    torch.manual_seed(7)

    def block(w):
        return lambda t: t + F.dropout(F.linear(t, w).tanh(), 0.4, True)

    def last(t, u):
        return block(ws[2])(checkpoint(block(ws[1]), t, use_reentrant=reentrant) * u)

    with torch.autocast("cpu", enabled=autocast):
        h = checkpoint(block(ws[0]), x, use_reentrant=reentrant)
        y = checkpoint(last, h, x.sigmoid(), use_reentrant=reentrant) + h
    after = torch.rand(3)
    (y * y).sum().backward()
    return {
        "y": y,
        "after": after,
        "x.grad": x.grad,
        **{f"w{i}.grad": w.grad for i, w in enumerate(ws)},
        "end": torch.rand(3),
    }


for name, values in {"checkpoint": checkpointed(True), "autocast": checkpointed(True, True)}.items():
    out |= {f"{name}.{k}": v for k, v in values.items()}
free = checkpointed(False)
for k, v in checkpointed(True).items():
    torch.testing.assert_close(v, free[k])  # sums in another order


def chain(autocast):
    """A stack of residual blocks, each in a checkpoint that is not reentrant, as transformers checkpoints the layers of
    a model.
    """
    x = x0.clone().requires_grad_()
    ws = [w.clone().requires_grad_() for w in weights]
    torch.manual_seed(7)

    def block(t, w):
        h = F.layer_norm(t + F.dropout(F.linear(t, w).tanh(), 0.4, True), (6,))
        return h + F.dropout(F.gelu(F.linear(h, w)), 0.1, True)

    with torch.autocast("cpu", enabled=autocast):
        h = x
        for w in ws:
            h = checkpoint(block, h, w, use_reentrant=False)
    (h * h).sum().backward()
    return {"y": h, "x.grad": x.grad, **{f"w{i}.grad": w.grad for i, w in enumerate(ws)}}


for name, values in {"chain": chain(False), "chain_autocast": chain(True)}.items():
    out |= {f"{name}.{k}": v for k, v in values.items()}


class Cube(torch.autograd.Function):
    """x**3 * y, and exp(y), with the second used for its own gradient."""

    @staticmethod
    def forward(ctx, x, y):
        e = y.exp()
        ctx.save_for_backward(x, y, e)
        return x**3 * y, e

    @staticmethod
    def backward(ctx, g, h):
        x, y, e = ctx.saved_tensors
        return g * 3 * x**2 * y, g * x**3 + h * e


x, y = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
out |= {"cube.x": x, "cube.y": y}
a, b = Cube.apply(x, y)
gx, gy = torch.autograd.grad((a * b).sum(), (x, y), create_graph=True)
out |= {"cube.a": a, "cube.b": b, "cube.gx": gx, "cube.gy": gy}
ggx, ggy = torch.autograd.grad((gx * gy).sum(), (x, y))
out |= {"cube.ggx": ggx, "cube.ggy": ggy}
gx, gy = torch.autograd.grad(Cube.apply(x, y)[1].sum(), (x, y))
out |= {"cube.second.gx": gx, "cube.second.gy": gy}

# a hook that scales, limits the norm, then the values; and two hooks in order
x = torch.randn(6, requires_grad=True)
out["hook.x"] = x
h = x * 2
h.retain_grad()
norms = []
h.register_hook(lambda g: norms.append(g.norm()))
h.register_hook(lambda g: g * 0.5)


def clip(g):
    norms.append(g.norm())
    return (g * (1.5 / (g.norm() + 1e-6)).clamp(max=1.0)).clamp(-0.6, 0.6)


h.register_hook(clip)
(h**3).sum().backward()
out |= {"hook.grad": x.grad, "hook.h.grad": h.grad, "hook.norms": torch.stack(norms)}

# third derivatives
x = torch.randn(5, dtype=torch.float64, requires_grad=True)
out["third.x"] = x
g = (x.sin() * x.exp()).sum()
for i in range(3):
    (g,) = torch.autograd.grad(g.sum(), x, create_graph=True)
    out[f"third.{i}"] = g

path = pathlib.Path(__file__).parent / "autograd.safetensors"
save_file({k: v.detach().clone().contiguous() for k, v in out.items()}, path)
os.chmod(path, 0o644)
print(len(out), "tensors")
