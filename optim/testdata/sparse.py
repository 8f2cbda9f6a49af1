"""Writes sparse.safetensors: 20 updates of an embedding with sparse gradients by SparseAdam and SGD.

index.K and factor.K are what update K looks up and the gradients of the rows; CASE.param and CASE.STATE are the
results. Update 3 looks nothing up, update 7 has no gradient.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file

T = torch.optim
generator = torch.Generator().manual_seed(77)
out = {"init": torch.randn(40, 3, generator=generator)}
for k in range(20):
    n = 0 if k == 3 else 9
    out[f"index.{k}"] = torch.randint(0, 40, (n,), generator=generator)
    out[f"factor.{k}"] = torch.randn(n, 3, generator=generator)

for case, optimizer, dtype in (
    ("plain", lambda p: T.SparseAdam(p), torch.float32),
    ("options", lambda p: T.SparseAdam(p, betas=(0.8, 0.95), eps=1e-4, maximize=True), torch.float32),
    ("double", lambda p: T.SparseAdam(p), torch.float64),
    ("sgd", lambda p: T.SGD(p, foreach=False), torch.float32),
):
    p = out["init"].to(dtype).clone().requires_grad_()
    opt = optimizer([p])
    for k in range(20):
        opt.zero_grad()
        if k != 7:
            rows = torch.nn.functional.embedding(out[f"index.{k}"], p, sparse=True)
            (rows * out[f"factor.{k}"]).sum().backward()
        for group in opt.param_groups:
            group["lr"] = 0.05 * ((20 - k) / 20)
        opt.step()
    out[case + ".param"] = p.detach().clone()
    for kind, value in opt.state[p].items():
        if value is not None:
            out[f"{case}.{kind}"] = torch.as_tensor(value, dtype=torch.float32 if kind == "step" else None).clone()

path = os.path.join(os.path.dirname(__file__), "sparse.safetensors")
save_file(out, path, metadata={"torch": torch.__version__.split("+")[0]})
os.chmod(path, 0o644)
