"""Writes optim.safetensors: 20 updates of torch.optim's fused optimizers on given gradients.

grad.K.NAME is the gradient of NAME in updates K, K+5, ...; init.NAME the parameter before, CASE/param/NAME and
CASE/state/NAME.KIND after. Parameter "late" has its first gradient in update 4, "rare" has none in odd updates,
"frozen" never.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file

UPDATES = 20
SHAPES = {"weight": (23, 11), "bias": (11,), "scale": (), "late": (5, 3), "rare": (33,), "frozen": (4,)}
LR = 0.05

generator = torch.Generator().manual_seed(2011)
init = {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}
grads = [
    {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items() if name != "frozen"}
    for _ in range(5)
]


def gradient(update, name):
    if name == "frozen" or (name == "late" and update < 4) or (name == "rare" and update % 2 == 1):
        return None
    return grads[update % 5][name]


def run(optimizer, groups=None, dtype=None, **options):
    """groups: list of (names, options with lr_scale). Rates fall linearly from LR, as a schedule would set them."""
    params = {}
    for name, value in init.items():
        to = dtype.get(name, torch.float32) if dtype else torch.float32
        params[name] = value.to(to).clone().requires_grad_(name != "frozen")
    groups = groups or [(list(params), {})]
    scales = [o.get("lr_scale", 1.0) for _, o in groups]
    groups = [
        {"params": [params[n] for n in names], **{k: v for k, v in o.items() if k != "lr_scale"}} for names, o in groups
    ]
    opt = optimizer(groups, lr=LR, fused=True, **options)
    for update in range(UPDATES):
        for name, p in params.items():
            g = gradient(update, name)
            p.grad = None if g is None else g.to(p.dtype).clone()
        rate = LR * ((UPDATES - update) / UPDATES)
        for group, scale in zip(opt.param_groups, scales):
            group["lr"] = rate * scale
        opt.step()
    out = {}
    for name, p in params.items():
        out[f"param/{name}"] = p.detach().clone()
        for kind, value in opt.state.get(p, {}).items():
            if value is not None:
                out[f"state/{name}.{kind}"] = value.clone()
    return out


A, W, S = torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD
everything = list(SHAPES)
# PyTorch's fused SGD refuses a parameter whose momentum begins later than that of others in its group: the late one has
# its own group.
apart = [([n for n in everything if n != "late"], {}), (["late"], {})]
cases = {
    "adamw": run(W),
    "adamw_no_decay": run(W, weight_decay=0.0),
    "adamw_settings": run(W, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.1),
    "adamw_zeros": run(W, betas=(0.0, 0.0), eps=1e-3),
    "adamw_amsgrad": run(W, amsgrad=True),
    "adamw_maximize": run(W, maximize=True),
    "adamw_groups": run(
        W,
        [
            (["weight", "late", "frozen"], {"weight_decay": 0.3}),
            (["bias", "scale"], {"weight_decay": 0.0, "lr_scale": 0.1}),
            (["rare"], {"lr_scale": 3.0}),
        ],
    ),
    "adamw_dtypes": run(W, dtype={"bias": torch.float64, "rare": torch.bfloat16, "late": torch.bfloat16}),
    "adam": run(A),
    "adam_decay_amsgrad": run(A, weight_decay=0.02, amsgrad=True),
    "sgd": run(S),
    "sgd_decay_maximize": run(S, weight_decay=0.1, maximize=True),
    "sgd_momentum": run(S, apart, momentum=0.9),
    "sgd_dampening": run(S, apart, momentum=0.9, dampening=0.4, weight_decay=0.01),
    "sgd_nesterov": run(S, apart, momentum=0.8, nesterov=True, weight_decay=0.01, maximize=True),
}

out = {f"init.{name}": value for name, value in init.items()}
for k, g in enumerate(grads):
    out.update({f"grad.{k}.{name}": value for name, value in g.items()})
for case, tensors in cases.items():
    out.update({f"{case}/{name}": value for name, value in tensors.items()})


# Clipping: the gradients of update 4, by total norm and by value.
def clipped(f):
    ps = [init[n].clone().requires_grad_() for n in SHAPES]
    for p, n in zip(ps, SHAPES):
        g = gradient(4, n)
        p.grad = None if g is None else g.clone()
    result = f(ps)
    return result, {n: p.grad for n, p in zip(SHAPES, ps) if p.grad is not None}


for name, f in {
    "clip_norm_1": lambda ps: torch.nn.utils.clip_grad_norm_(ps, 1.0),
    "clip_norm_1000": lambda ps: torch.nn.utils.clip_grad_norm_(ps, 1000.0),
    "clip_value": lambda ps: torch.nn.utils.clip_grad_value_(ps, 0.5),
}.items():
    total, after = clipped(f)
    if total is not None:
        out[f"{name}/total"] = total
    out.update({f"{name}/grad/{n}": g for n, g in after.items()})

path = os.path.splitext(__file__)[0] + ".safetensors"
save_file({k: v.contiguous() for k, v in out.items()}, path, metadata={"torch": torch.__version__.split("+")[0]})
os.chmod(path, 0o644)
print(path, len(out), "tensors")
