"""Writes golden.json: learning rates of transformers.get_scheduler as float.hex(). Run: python3 golden.py"""

import json, pathlib
import torch, transformers
from transformers import TrainingArguments, get_scheduler

cases = []
for kind in ("constant", "constant_with_warmup", "linear", "cosine"):
    for peak in (5e-5, 0.3):
        for updates in (1, 2, 10, 37):
            for warmup in (0, 0.1, 0.5, 1, 3.7, 10, 200):
                for cycles in (0.5, 1.0, 2.5) if kind == "cosine" else (0.5,):
                    if kind == "constant" and warmup:
                        continue
                    w = TrainingArguments.get_warmup_steps(type("A", (), {"warmup_steps": warmup}), updates)
                    opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=peak)
                    kw = {"num_cycles": cycles} if kind == "cosine" else {}
                    s = get_scheduler(
                        kind, opt, num_warmup_steps=w, num_training_steps=updates, scheduler_specific_kwargs=kw
                    )
                    rates = []
                    for _ in range(updates + 3):
                        rates.append(float(opt.param_groups[0]["lr"]).hex())
                        opt.step()
                        s.step()
                    cases.append(
                        {
                            "kind": kind,
                            "peak": peak,
                            "updates": updates,
                            "warmup": warmup,
                            "cycles": cycles,
                            "rates": rates,
                        }
                    )
out = {"transformers": transformers.__version__, "torch": torch.__version__, "cases": cases}
pathlib.Path(__file__).with_name("golden.json").write_text(
    json.dumps(out, separators=(",", ":")).replace('{"kind"', '\n{"kind"') + "\n"
)
