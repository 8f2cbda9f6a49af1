"""Golden values of torchvision's ResNets: python resnet.py writes resnet.json and resnet.safetensors beside it.

Needs torchvision 0.26.0 and torch 2.11.0. No weights are stored: seed 7 makes them, and the beginnings of their sha256
say whether ours are the same.
"""

import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
import torchvision
from goldenfile import save_file

torch.set_num_threads(1)


def sha(t):
    return hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()[:16]


def pictures(*shape):
    i = torch.arange(torch.Size(shape).numel())
    return (((i * 2654435761 % 2**32) >> 8).float() / 2**23 - 1).reshape(shape)


models, tensors = {}, {}
for name in ("resnet18", "resnet34", "resnet50"):
    torch.manual_seed(7)
    model = getattr(torchvision.models, name)(num_classes=10)
    state = [[n, list(t.shape)] for n, t in model.state_dict().items()]
    initial = {n: sha(p) for n, p in model.named_parameters()}
    generator = sha(torch.get_rng_state())
    loss = torch.nn.functional.cross_entropy(logits := model(pictures(4, 3, 47, 64)), torch.tensor([1, 9, 0, 4]))
    loss.backward()
    model.eval()
    with torch.no_grad():
        tensors[name + ".evaluated"] = model(pictures(2, 3, 64, 32)).contiguous()
    tensors[name + ".logits"], tensors[name + ".loss"] = logits.detach().contiguous(), loss.detach()
    tensors[name + ".running_var"] = model.layer4[1].bn2.running_var
    models[name] = {
        "state_dict": state,
        "modules": [n for n, _ in model.named_modules()],
        "generator": generator,
        "initial": initial,
        "grad": {n: sha(p.grad) for n, p in model.named_parameters()},
        "grad_norm": {n: float(f"{p.grad.double().norm():.7g}") for n, p in model.named_parameters()},
    }
torch.manual_seed(7)
zero = torchvision.models.resnet18(num_classes=10, zero_init_residual=True)
models["resnet18"]["zero_init_residual"] = [
    n for n, p in zero.named_parameters() if not p.any() and not n.endswith("bias")
]
here = pathlib.Path(__file__).parent
save_file(
    tensors, here / "resnet.safetensors", metadata={"torch": torch.__version__, "torchvision": torchvision.__version__}
)
(here / "resnet.json").write_text(json.dumps(models, separators=(",", ":")).replace(',"', ',\n"') + "\n")
