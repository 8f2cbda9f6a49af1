"""Writes autocast.safetensors: two small models trained for 3 updates under bfloat16 autocast on the CPU.

CASE/x, CASE/y are the batch, CASE/init.NAME the parameters before; CASE/K/loss, CASE/K/grad.NAME belong to update K and
CASE/final.NAME comes after the last. The mlp uses its first weight twice, so that the cache of casts matters. nested
is a region in a region: bfloat16, off, bfloat16.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
import torch.nn.functional as F
from goldenfile import save_file

g = torch.Generator().manual_seed(7)


def draw(*shape, scale=0.3):
    return torch.randn(shape, generator=g) * scale


def mlp(p, x):
    h = F.relu(F.linear(x, p["w1"], p["b1"]))
    h = F.relu(F.linear(h, p["w1"], p["b1"]))
    return F.linear(h, p["w2"], p["b2"])


def conv(p, x):
    h = F.conv2d(x, p["c1"], p["cb1"], padding=1)
    h = F.batch_norm(h, None, None, p["g"], p["b"], True)
    h = F.max_pool2d(F.relu(h), 2)
    h = F.conv2d(h, p["c2"], p["cb2"])
    h = F.layer_norm(h.flatten(1), (16,))
    return F.linear(h, p["w"], p["wb"])


cases = {
    "mlp": (mlp, draw(6, 16, scale=1), {"w1": draw(16, 16), "b1": draw(16), "w2": draw(4, 16), "b2": draw(4)}),
    "conv": (
        conv,
        draw(6, 2, 8, 8, scale=1),
        {
            "c1": draw(4, 2, 3, 3),
            "cb1": draw(4),
            "g": draw(4),
            "b": draw(4),
            "c2": draw(4, 4, 3, 3),
            "cb2": draw(4),
            "w": draw(4, 16),
            "wb": draw(4),
        },
    ),
}
out = {}
for name, (model, x, init) in cases.items():
    y = torch.randint(0, 4, (6,), generator=g)
    out |= {f"{name}/x": x, f"{name}/y": y} | {f"{name}/init.{k}": v.clone() for k, v in init.items()}
    params = {k: v.clone().requires_grad_() for k, v in init.items()}
    opt = torch.optim.AdamW(params.values(), lr=0.01, fused=True)
    for k in range(3):
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(params, x)
            loss = F.cross_entropy(logits, y)
        loss.backward()
        out |= {f"{name}/{k}/logits": logits.detach().clone(), f"{name}/{k}/loss": loss.detach().clone()}
        out |= {f"{name}/{k}/grad.{n}": p.grad.clone() for n, p in params.items()}
        opt.step()
        opt.zero_grad()
    out |= {f"{name}/final.{n}": p.detach().clone() for n, p in params.items()}

x, w = draw(4, 8), draw(8, 8)
with torch.autocast("cpu", torch.bfloat16):
    a = F.linear(x, w)
    with torch.autocast("cpu", enabled=False):
        b = F.linear(a.float(), w)
        with torch.autocast("cpu", torch.bfloat16):
            c = F.linear(b, w)
    d = F.linear(c, w)
out |= {"nested/x": x, "nested/w": w, "nested/a": a, "nested/b": b, "nested/c": c, "nested/d": d}

path = os.path.splitext(__file__)[0] + ".safetensors"
save_file({k: v.contiguous() for k, v in out.items()}, path, metadata={"torch": torch.__version__.split("+")[0]})
os.chmod(path, 0o644)
print(path, len(out), "tensors")
