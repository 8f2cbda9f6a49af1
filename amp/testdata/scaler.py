"""Writes scaler.safetensors: torch.amp.GradScaler on the CPU over 14 updates of a linear model, with infinities and
NaNs put into gradients.

CASE/trace is [update, (scale before, tracker before, applied, scale after, tracker after)]; CASE/K/weight, CASE/K/bias
the parameters after update K; x, y, weight, bias what it starts from. Metadata: the settings of each case and
PyTorch's version as JSON.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file

UPDATES = 14
POISON = {2: ("weight", float("inf")), 3: ("bias", float("nan")), 8: ("weight", float("-inf"))}
CASES = {
    "default": dict(unscale=False),
    "short_interval": dict(unscale=False, init_scale=1024.0, growth_interval=3),
    "clipped": dict(unscale=True, init_scale=1024.0, growth_interval=3),
    "odd_factors": dict(unscale=True, init_scale=1000.0, growth_factor=1.7, backoff_factor=0.3, growth_interval=2),
}

g = torch.Generator().manual_seed(5)
x, y = torch.randn((5, 6), generator=g), torch.randn((5, 3), generator=g)
start = {"weight": torch.randn((3, 6), generator=g), "bias": torch.randn((3,), generator=g)}
out = {"x": x, "y": y, **start}
for name, settings in CASES.items():
    settings = dict(settings)
    unscale = settings.pop("unscale")
    params = {k: v.clone().requires_grad_() for k, v in start.items()}
    opt = torch.optim.AdamW(params.values(), lr=0.05, fused=True)
    scaler = torch.amp.GradScaler("cpu", **settings)
    trace = []
    for k in range(UPDATES):
        loss = torch.nn.functional.mse_loss(torch.nn.functional.linear(x, params["weight"], params["bias"]), y)
        scaler.scale(loss).backward()
        if k in POISON:
            which, value = POISON[k]
            params[which].grad.view(-1)[1] = value
        before = [scaler.get_scale(), scaler._get_growth_tracker()]
        if unscale:
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(params.values(), 0.5)
        scaler.step(opt)
        found = scaler._per_optimizer_states[id(opt)]["found_inf_per_device"].values()
        applied = not sum(v.item() for v in found)
        scaler.update()
        opt.zero_grad()
        trace.append(before + [float(applied), scaler.get_scale(), scaler._get_growth_tracker()])
        out |= {f"{name}/{k}/{n}": p.detach().clone() for n, p in params.items()}
    out[f"{name}/trace"] = torch.tensor(trace, dtype=torch.float64)

path = os.path.splitext(__file__)[0] + ".safetensors"
save_file(
    {k: v.contiguous() for k, v in out.items()},
    path,
    metadata={"made": json.dumps({"torch": torch.__version__.split("+")[0], "cases": CASES})},
)  # one key: files of several are not written alike twice
os.chmod(path, 0o644)
print(path, len(out), "tensors")
for name in CASES:
    print(name, out[f"{name}/trace"].tolist()[:5])
