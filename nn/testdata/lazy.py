"""Writes lazy.safetensors: models of lazy modules after their first forward pass, by the names in lazy_test.go.

NAME.x is the input, NAME.y the output, NAME.after.KEY the state dict after it and NAME.grad.KEY the gradients of
y.sum() * 0.5 of parameters. Every model starts from the seed 31.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file
from torch import nn

models = {
    "linear": (lambda: nn.LazyLinear(3), (4, 5)),
    "linear_nobias": (lambda: nn.LazyLinear(3, bias=False), (2, 3, 7)),
    "conv1d": (lambda: nn.LazyConv1d(6, 3, padding=1), (2, 4, 9)),
    "conv2d": (lambda: nn.LazyConv2d(6, (3, 2), stride=2, groups=2), (2, 4, 9, 8)),
    "conv2d_unbatched": (lambda: nn.LazyConv2d(5, 3, padding=1, padding_mode="reflect"), (4, 6, 7)),
    "conv3d": (lambda: nn.LazyConv3d(4, 2, bias=False), (2, 3, 4, 5, 4)),
    "convtranspose1d": (lambda: nn.LazyConvTranspose1d(6, 3, stride=2), (2, 4, 5)),
    "convtranspose2d": (
        lambda: nn.LazyConvTranspose2d(6, 3, stride=2, padding=1, output_padding=1, groups=2),
        (2, 4, 5, 4),
    ),
    "convtranspose3d": (lambda: nn.LazyConvTranspose3d(3, 2), (2, 2, 3, 2, 3)),
    "batchnorm1d": (lambda: nn.LazyBatchNorm1d(), (6, 5)),
    "batchnorm2d": (lambda: nn.LazyBatchNorm2d(momentum=0.3, eps=1e-3), (3, 4, 5, 6)),
    "batchnorm3d": (lambda: nn.LazyBatchNorm3d(affine=False), (3, 2, 3, 2, 3)),
    "instancenorm1d": (lambda: nn.LazyInstanceNorm1d(affine=True, track_running_stats=False), (3, 4, 7)),
    "instancenorm2d": (lambda: nn.LazyInstanceNorm2d(affine=True, track_running_stats=True), (3, 4, 5, 6)),
    "instancenorm3d": (lambda: nn.LazyInstanceNorm3d(affine=False, track_running_stats=False), (3, 2, 3, 2, 3)),
    "model": (
        lambda: nn.Sequential(
            nn.LazyConv2d(8, 3),
            nn.LazyBatchNorm2d(),
            nn.ReLU(),
            nn.Linear(6, 4),
            nn.Flatten(),
            nn.LazyLinear(10),
            nn.Dropout(0.3),
            nn.LazyLinear(2),
        ),
        (4, 3, 8, 8),
    ),
}
generator = torch.Generator().manual_seed(5)
out = {}
for name, (make, shape) in models.items():
    x = out[name + ".x"] = torch.randn(shape, generator=generator)
    torch.manual_seed(31)
    model = make()
    y = model(x)
    out[name + ".y"] = y.detach().clone()
    if y.requires_grad:
        (y.sum() * 0.5).backward()
    for key, p in model.named_parameters():
        out[f"{name}.grad.{key}"] = p.grad.clone()
    for key, value in model.state_dict().items():
        out[f"{name}.after.{key}"] = value.clone()
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lazy.safetensors")
save_file({k: v.contiguous() for k, v in out.items()}, path, metadata={"torch": torch.__version__.split("+")[0]})
os.chmod(path, 0o644)
