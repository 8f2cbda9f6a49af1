"""Writes pytorch.safetensors: state_dict() of optimizers after 10 updates, flattened, and the parameters then and after
20.

CASE/at/NAME, CASE/end/NAME: parameters; CASE/state.N.KIND: the state after 10 updates. The metadata hold CASE: the JSON
of param_groups. Then averages of torch.optim.swa_utils.AveragedModel over five versions of the parameters:
average/CASE/NAME.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file
from safetensors.torch import load_file
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

here = os.path.dirname(os.path.abspath(__file__))
inputs = load_file(os.path.join(here, "inputs.safetensors"))
names = ["weight", "bias", "scale", "rare"]
out, metadata = {}, {"torch": torch.__version__.split("+")[0]}


def run(case, optimizer, with_names, **options):
    params = {n: inputs[f"init.{n}"].clone().requires_grad_() for n in names}
    entry = (lambda n: (n, params[n])) if with_names else (lambda n: params[n])
    opt = optimizer(
        [{"params": [entry(n) for n in names[:2]]}, {"params": [entry(n) for n in names[2:]], "weight_decay": 0.1}],
        lr=0.05,
        **options,
    )
    for update in range(20):
        for name, p in params.items():
            p.grad = None if name == "rare" and update % 2 else inputs[f"grad.{update % 5}.{name}"].clone()
        opt.step()
        if update == 9:
            state = opt.state_dict()
            metadata[case] = json.dumps({"param_groups": state["param_groups"]})
            out.update({f"{case}/state.{i}.{k}": v.clone() for i, s in state["state"].items() for k, v in s.items()})
        if update in (9, 19):
            out.update({f"{case}/{'at' if update == 9 else 'end'}/{n}": p.detach().clone() for n, p in params.items()})


run("adamw", torch.optim.AdamW, True)
run("adamw_numbers", torch.optim.AdamW, False)
run("nadam", torch.optim.NAdam, True)
run("rmsprop", torch.optim.RMSprop, False, momentum=0.9)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for n in names:
            self.register_parameter(n, torch.nn.Parameter(inputs[f"init.{n}"].clone()))
        self.register_buffer("count", torch.tensor([3, 100]))


for case, options in {
    "plain": {},
    "ema": {"multi_avg_fn": get_ema_multi_avg_fn(0.9)},
    "buffers": {"use_buffers": True},
    "ema_buffers": {"multi_avg_fn": get_ema_multi_avg_fn(0.9), "use_buffers": True},
}.items():
    model = Model()
    average = AveragedModel(model, **options)
    for k in range(5):
        with torch.no_grad():
            for n in names:
                getattr(model, n).copy_(inputs[f"grad.{k}.{n}"])
            model.count.add_(k + 1)
        average.update_parameters(model)
    out.update(
        {
            f"average/{case}/{n}": v.detach().clone()
            for n, v in average.module.state_dict().items()
            if n != "count" or "buffers" in case
        }
    )

path = os.path.splitext(os.path.abspath(__file__))[0] + ".safetensors"
save_file(out, path, metadata=dict(sorted(metadata.items())))
os.chmod(path, 0o644)
print(path, len(out), "tensors")
