"""Writes hf_checkpoint/: a checkpoint of transformers.Trainer 5.17 after three of nine updates of a small tagger, and
expected.safetensors and expected.json with what the run ends with. transformers_test.go continues from it.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import torch
from goldenfile import save_file
from safetensors.torch import load_file
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments

here = pathlib.Path(__file__).resolve().parent
torch.set_num_threads(1)
VOCAB, DIM, CLASSES = 20, 6, 4


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCAB, DIM)
        self.hidden = torch.nn.Linear(DIM, DIM)
        self.out = torch.nn.Linear(DIM, CLASSES)

    def forward(self, input_ids, labels=None):
        x = F.dropout(torch.tanh(self.hidden(self.embed(input_ids))), 0.3, self.training)
        logits = self.out(x)
        return {"loss": F.cross_entropy(logits.reshape(-1, CLASSES), labels.reshape(-1)), "logits": logits}


g = torch.Generator().manual_seed(1)
rows = [
    {"input_ids": torch.randint(1, VOCAB, (5,), generator=g), "labels": torch.randint(0, CLASSES, (5,), generator=g)}
    for _ in range(20)
]
torch.manual_seed(7)
run = pathlib.Path(tempfile.mkdtemp())
args = TrainingArguments(
    output_dir=str(run),
    per_device_train_batch_size=4,
    max_steps=9,
    save_steps=3,
    logging_steps=1,
    learning_rate=0.02,
    weight_decay=0.1,
    use_cpu=True,
    report_to=[],
    disable_tqdm=True,
    lr_scheduler_type="cosine",
    warmup_steps=2,
)
Trainer(Tagger(), args, train_dataset=rows).train()
out = here / "hf_checkpoint"
shutil.rmtree(out, ignore_errors=True)
shutil.copytree(run / "checkpoint-3", out / "checkpoint-3", ignore=shutil.ignore_patterns("training_args.bin"))
for file in (out / "checkpoint-3").iterdir():
    os.chmod(file, 0o644)
last = run / "checkpoint-9"
tensors = {f"weights/{n}": t for n, t in load_file(last / "model.safetensors").items()}
tensors |= {
    f"moments/{i}.{k}": v
    for i, s in torch.load(last / "optimizer.pt", weights_only=True)["state"].items()
    for k, v in s.items()
}
tensors |= {f"row.{i}.{k}": v for i, r in enumerate(rows) for k, v in r.items()}
tensors["next"] = torch.rand(4)
save_file(tensors, str(out / "expected.safetensors"))
log = [r for r in json.loads((last / "trainer_state.json").read_text())["log_history"] if "loss" in r]
(out / "expected.json").write_text(
    json.dumps([{k: float(r[k]).hex() for k in ("loss", "grad_norm", "learning_rate")} for r in log], indent=1) + "\n"
)
shutil.rmtree(run)
