"""Writes lbfgs.safetensors: Steps of torch.optim.LBFGS on Rosenbrock's function and on a least-squares problem, in
float32 and float64.

CASE/init, CASE/after/K: all parameters in one flat tensor before and after K Steps; CASE/loss: the losses that the
Steps returned.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file

out = {}
generator = torch.Generator().manual_seed(7)
A = torch.randn(12, 5, generator=generator)
B = torch.randn(12, generator=generator)
out["A"], out["B"] = A, B


def rosenbrock(ps):
    x, y = ps
    return (x.mul(-1).add(1).square() + (y - x.square()).square().mul(100)).sum()


def least_squares(ps):
    w, b = ps
    r = torch.mv(A.to(w.dtype), w).add(b).tanh().sub(B.to(w.dtype))
    return r.square().sum()


STARTS = {
    "rosenbrock": (rosenbrock, [torch.tensor([-1.2, 0.5]), torch.tensor([1.0, -0.7])]),
    "squares": (least_squares, [torch.full((5,), 0.3), torch.tensor(0.1)]),
}
OPTIONS = {
    "plain": dict(lr=0.01),
    "wolfe": dict(line_search_fn="strong_wolfe"),
    "short": dict(line_search_fn="strong_wolfe", history_size=3, max_iter=4, lr=0.5),
}
for function, (f, start) in STARTS.items():
    for kind, options in OPTIONS.items():
        for dtype in (torch.float32, torch.float64):
            case = f"{function}_{kind}_{str(dtype).split('.')[1]}"
            ps = [s.to(dtype).clone().requires_grad_() for s in start]
            flat = lambda: torch.cat([p.detach().reshape(-1) for p in ps])
            out[f"{case}/init"] = flat()
            opt = torch.optim.LBFGS(ps, **options)
            losses = []

            def closure():
                opt.zero_grad()
                loss = f(ps)
                loss.backward()
                return loss

            for k in range(1, 7):
                losses.append(float(opt.step(closure)))
                out[f"{case}/after/{k}"] = flat()
            out[f"{case}/loss"] = torch.tensor(losses, dtype=torch.float64)
            out[f"{case}/evals"] = torch.tensor([opt.state[ps[0]]["func_evals"], opt.state[ps[0]]["n_iter"]])

path = os.path.splitext(__file__)[0] + ".safetensors"
save_file(out, path, metadata={"torch": torch.__version__.split("+")[0]})
os.chmod(path, 0o644)
print(path, len(out), "tensors")
