"""Writes hf.safetensors and hf.json: small runs of transformers.Trainer 5.17 with a tagger of ragged sequences
(embedding, dropout, linear), for what trainer/engine does with tensors. hf_test.go repeats them.
"""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import numpy
import torch
from goldenfile import save_file
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from transformers import Trainer, TrainingArguments, set_seed

here = os.path.dirname(os.path.abspath(__file__))
torch.set_num_threads(1)
VOCAB, DIM, CLASSES = 20, 6, 4
tensors, runs = {}, []


class Tagger(torch.nn.Module):
    main_input_name = "input_ids"
    gradient_checkpointing = False
    config = None

    def __init__(self, dropout=0.0, own_count=False):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCAB, DIM)
        self.hidden = torch.nn.Linear(DIM, DIM)
        self.out = torch.nn.Linear(DIM, CLASSES)
        self.dropout = dropout

    def get_input_embeddings(self):
        return self.embed

    def gradient_checkpointing_enable(self, **kwargs):
        self.gradient_checkpointing = True

    def middle(self, x):
        return F.dropout(torch.tanh(self.hidden(x)), self.dropout, self.training)

    def forward(self, input_ids, labels=None):
        x = self.embed(input_ids)
        x = (
            checkpoint(self.middle, x, use_reentrant=False)
            if self.gradient_checkpointing and self.training
            else self.middle(x)
        )
        logits = self.out(x)
        if labels is None:
            return {"logits": logits}
        return {"loss": F.cross_entropy(logits.reshape(-1, CLASSES), labels.reshape(-1)), "logits": logits}


class Counting(Tagger):
    def forward(self, input_ids, labels=None, num_items_in_batch=None, **kwargs):
        logits = super().forward(input_ids)["logits"]
        if labels is None:
            return {"logits": logits}
        if num_items_in_batch is None:
            loss = F.cross_entropy(logits.reshape(-1, CLASSES), labels.reshape(-1))
        else:
            loss = (
                F.cross_entropy(logits.reshape(-1, CLASSES), labels.reshape(-1), reduction="sum") / num_items_in_batch
            )
        return {"loss": loss, "logits": logits}


def rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(n):
        length = int(torch.randint(2, 9, (), generator=g))
        ids = torch.randint(1, VOCAB, (length,), generator=g)
        labels = torch.randint(0, CLASSES, (length,), generator=g)
        labels[torch.rand(length, generator=g) < 0.3] = -100
        labels[0] = int(ids[0]) % CLASSES
        out.append({"input_ids": ids, "labels": labels})
    return out


train, valid = rows(21, 1), rows(11, 2)


def collate(samples):
    width = max(len(s["input_ids"]) for s in samples)
    pad = lambda t, v: F.pad(t, (0, width - len(t)), value=v)
    return {
        "input_ids": torch.stack([pad(s["input_ids"], 0) for s in samples]),
        "labels": torch.stack([pad(s["labels"], -100) for s in samples]),
    }


def summed(outputs, labels, num_items_in_batch=None):
    return (
        F.cross_entropy(outputs["logits"].reshape(-1, CLASSES), labels.reshape(-1), reduction="sum")
        / num_items_in_batch
    )


class Smoothed(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        "Two passes over a batch: with and without its last column."
        a = super().training_step(model, dict(inputs), num_items_in_batch)
        b = super().training_step(model, {k: v[:, :-1] for k, v in inputs.items()}, num_items_in_batch)
        return a + b


def run(
    name, model=Tagger, trainer=Trainer, schedule=None, optimizer=None, init=False, dropout=0.0, loss=None, **kwargs
):
    args = dict(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        num_train_epochs=2,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        learning_rate=0.02,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        train_sampling_strategy="sequential",
        remove_unused_columns=False,
        label_names=["labels"],
    )
    args.update(kwargs)
    a = TrainingArguments(**args)
    torch.manual_seed(7)
    net = None if init else model(dropout)
    if not init:
        for n, p in net.named_parameters():
            tensors[f"{name}/init/{n}"] = p.detach().clone()
    order = []

    def seen(samples):
        if any(t is samples[0] for t in source):
            order.append([next(i for i, t in enumerate(source) if t is s) for s in samples])
        return collate(samples)

    made = {"model_init": (lambda: model(dropout))} if init else {"model": net}
    optimizers = (None, None)
    if optimizer:
        o = optimizer(net)
        optimizers = (o, schedule(o))
    t = trainer(
        args=a,
        train_dataset=train,
        eval_dataset=valid,
        data_collator=seen,
        compute_loss_func=loss,
        optimizers=optimizers,
        compute_metrics=lambda p: {
            "right": float((numpy.argmax(p.predictions, -1) == p.label_ids).sum()),
            "width": float(p.predictions.shape[1]),
        },
        **made,
    )
    source = train
    t.train()
    batches = list(order)
    source = valid
    order.clear()
    p = t.predict(valid)
    log = [r for r in t.state.log_history if "loss" in r]
    evaluations = [
        {"loss": float(r["eval_loss"]).hex(), "right": r["eval_right"], "width": r["eval_width"]}
        for r in t.state.log_history
        if "eval_loss" in r
    ]
    runs.append(
        {
            "name": name,
            "batches": batches,
            "eval_batches": order,
            "losses": [r["loss"].hex() for r in log],
            "grad_norms": [float(r["grad_norm"]).hex() for r in log],
            "rates": [float(r["learning_rate"]).hex() for r in log],
            "eval_loss": float(p.metrics["test_loss"]).hex(),
            "right": p.metrics["test_right"],
            "width": p.metrics["test_width"],
            "evaluations": evaluations,
        }
    )
    for n, v in t.model.state_dict().items():
        tensors[f"{name}/final/{n}"] = v.detach().clone()
    tensors[f"{name}/predictions"] = torch.from_numpy(p.predictions.copy())
    tensors[f"{name}/label_ids"] = torch.from_numpy(p.label_ids.copy())
    tensors[f"{name}/next"] = torch.rand(4)  # where the generator stands


run("plain")
run("label smoothing", label_smoothing_factor=0.1, gradient_accumulation_steps=2)
run("label smoothing of counted items", model=Counting, label_smoothing_factor=0.1, gradient_accumulation_steps=4)
run("counted items", model=Counting, gradient_accumulation_steps=4)
run("custom loss", loss=summed, gradient_accumulation_steps=4)
run("NEFTune", neftune_noise_alpha=5.0, dropout=0.2)
run("gradient checkpointing", gradient_checkpointing=True, dropout=0.3)
run("bf16", bf16=True)
run("bf16 label smoothing", bf16=True, label_smoothing_factor=0.2)
run("fp16 on a CPU", fp16=True)
run("adafactor", optim="adafactor", weight_decay=0.05)
run(
    "momentum cycling",
    optimizer=lambda m: torch.optim.AdamW(m.parameters(), lr=0.02, weight_decay=0.0),
    schedule=lambda o: torch.optim.lr_scheduler.OneCycleLR(o, max_lr=0.02, total_steps=12),
)
run(
    "momentum cycling of SGD",
    optimizer=lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
    schedule=lambda o: torch.optim.lr_scheduler.CyclicLR(o, base_lr=0.01, max_lr=0.1, step_size_up=3),
)
run("group by length", train_sampling_strategy="group_by_length", dropout=0.2, gradient_accumulation_steps=2)
run("model init", init=True, dropout=0.3)
run("training step", trainer=Smoothed)
run("evaluations", eval_strategy="steps", eval_steps=4, dropout=0.3, label_smoothing_factor=0.1)

for k, r in enumerate(train + valid):
    tensors[f"row.{k}.input_ids"], tensors[f"row.{k}.labels"] = r["input_ids"], r["labels"]

# numpy's mean of losses that are repeated as evaluation_loop repeats them.
g = numpy.random.default_rng(3)
means = []
for dtype in ("float32", "float64", "float16"):
    for batches, size, n in [
        (1, 1, 1),
        (1, 8, 5),
        (2, 8, 11),
        (3, 5, 15),
        (9, 8, 66),
        (16, 8, 127),
        (16, 8, 128),
        (17, 8, 129),
        (17, 8, 136),
        (40, 8, 317),
        (63, 16, 1000),
        (129, 8, 1030),
        (300, 7, 2099),
        (1100, 8, 8795),
        (2500, 8, 20000),
    ]:
        losses = (g.random(batches) * 3).astype(dtype)
        mean = numpy.repeat(losses, size)[:n].mean()
        assert mean.dtype == losses.dtype
        key = f"mean.{len(means)}"
        tensors[key] = torch.from_numpy(losses)
        means.append({"dtype": dtype, "size": size, "rows": n, "mean": float(mean).hex()})
save_file(
    {k: v.contiguous().clone() for k, v in tensors.items()},
    os.path.join(here, "hf.safetensors"),
    {"torch": torch.__version__},
)
json.dump({"runs": runs, "means": means}, open(os.path.join(here, "hf.json"), "w"), indent=1)
