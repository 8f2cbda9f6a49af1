"""Writes hf_ddp.safetensors and hf_ddp.json: runs of transformers.Trainer 5.17 on two to four processes
(DistributedDataParallel over gloo) with the tagger of hf.py. group_test.go repeats them.
"""

import json
import os
import socket
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import numpy
import torch
from goldenfile import save_file
from safetensors.torch import load_file
from torch.nn import functional as F
from transformers import Trainer, TrainingArguments

here = os.path.dirname(os.path.abspath(__file__))
VOCAB, DIM, CLASSES = 20, 6, 4


class Tagger(torch.nn.Module):
    main_input_name = "input_ids"
    config = None

    def __init__(self, dropout=0.0):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCAB, DIM)
        self.hidden = torch.nn.Linear(DIM, DIM)
        self.out = torch.nn.Linear(DIM, CLASSES)
        self.dropout = dropout

    def logits(self, input_ids):
        return self.out(F.dropout(torch.tanh(self.hidden(self.embed(input_ids))), self.dropout, self.training))

    def forward(self, input_ids, labels=None):
        logits = self.logits(input_ids)
        return {"loss": F.cross_entropy(logits.reshape(-1, CLASSES), labels.reshape(-1)), "logits": logits}


class Counting(Tagger):
    def forward(self, input_ids, labels=None, num_items_in_batch=None, **kwargs):
        logits = self.logits(input_ids)
        if num_items_in_batch is None:
            loss = F.cross_entropy(logits.reshape(-1, CLASSES), labels.reshape(-1))
        else:
            loss = (
                F.cross_entropy(logits.reshape(-1, CLASSES), labels.reshape(-1), reduction="sum") / num_items_in_batch
            )
        return {"loss": loss, "logits": logits}


def rows():
    t = load_file(os.path.join(here, "hf.safetensors"))
    return [
        {"row": k if k < 21 else k - 21, "input_ids": t[f"row.{k}.input_ids"], "labels": t[f"row.{k}.labels"]}
        for k in range(32)
    ]


def collate(samples):
    width = max(len(s["input_ids"]) for s in samples)
    pad = lambda t, v: F.pad(t, (0, width - len(t)), value=v)
    return {
        "input_ids": torch.stack([pad(s["input_ids"], 0) for s in samples]),
        "labels": torch.stack([pad(s["labels"], -100) for s in samples]),
    }


class Branching(Tagger):
    """Uses its hidden layer on some processes only, and another one on none."""

    def __init__(self, dropout=0.0):
        super().__init__(dropout)
        self.spare = torch.nn.Linear(DIM, DIM)

    def logits(self, input_ids):
        embedded = self.embed(input_ids)
        if int(input_ids[0, 0]) % 2 == 0:
            embedded = self.hidden(embedded)
        return self.out(F.dropout(torch.tanh(embedded), self.dropout, self.training))


def run(rank, port, name, model, dropout, kwargs, world, out):
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    torch.set_num_threads(1)
    all_rows = rows()
    train, valid = all_rows[:21], all_rows[21:29]
    a = TrainingArguments(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        ddp_backend="gloo",
        num_train_epochs=2,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        learning_rate=0.02,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        label_names=["labels"],
        **kwargs,
    )
    torch.manual_seed(7)
    net = model(dropout)
    tensors = {f"{name}/init/{n}": p.detach().clone() for n, p in net.named_parameters()}
    order = []

    def seen(samples):
        order.append([s["row"] for s in samples])
        return collate(samples)

    right = lambda p: {"right": float((numpy.argmax(p.predictions, -1) == p.label_ids).sum())}
    t = Trainer(model=net, args=a, train_dataset=train, eval_dataset=valid, data_collator=seen, compute_metrics=right)
    t.train()
    batches = list(order)
    m = t.evaluate()
    log = [r for r in t.state.log_history if "loss" in r]
    for n, v in t.model.state_dict().items():
        tensors[f"{name}/final/{n}"] = v.detach().clone()
    tensors[f"{name}/{rank}/next"] = torch.rand(4)
    save_file(tensors, f"{out}.{rank}.tensors")
    with open(f"{out}.{rank}.json", "w") as f:
        json.dump(
            {
                "name": name,
                "batches": batches,
                "losses": [r["loss"].hex() for r in log],
                "grad_norms": [float(r["grad_norm"]).hex() for r in log],
                "rates": [float(r["learning_rate"]).hex() for r in log],
                "eval_loss": float(m["eval_loss"]).hex(),
                "right": m["eval_right"],
                "max_steps": t.state.max_steps,
            },
            f,
        )


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    tensors, runs = {}, []
    for name, model, dropout, kwargs, world in [
        ("plain", Tagger, 0.0, {}, 2),
        ("accumulation and dropout", Tagger, 0.3, {"gradient_accumulation_steps": 2}, 2),
        ("counted items", Counting, 0.2, {"gradient_accumulation_steps": 2}, 2),
        ("three processes", Tagger, 0.3, {}, 3),
        (
            "three processes, many buckets",
            Tagger,
            0.3,
            {"ddp_bucket_cap_mb": 0.0002, "ddp_find_unused_parameters": False},
            3,
        ),
        ("three processes, unused parameters", Branching, 0.0, {}, 3),
        ("four processes", Counting, 0.2, {"gradient_accumulation_steps": 2}, 4),
    ]:
        out = os.path.join(here, "hf_ddp.tmp")
        torch.multiprocessing.spawn(run, (free_port(), name, model, dropout, kwargs, world, out), nprocs=world)
        ranks = []
        for rank in range(world):
            tensors.update(load_file(f"{out}.{rank}.tensors"))
            with open(f"{out}.{rank}.json") as f:
                ranks.append(json.load(f))
            os.remove(f"{out}.{rank}.tensors"), os.remove(f"{out}.{rank}.json")
        runs.append({**ranks[0], "batches": [r["batches"] for r in ranks]})
    save_file(tensors, os.path.join(here, "hf_ddp.safetensors"), {"torch": torch.__version__})
    with open(os.path.join(here, "hf_ddp.json"), "w") as f:
        json.dump(runs, f)
