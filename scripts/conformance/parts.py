"""What the recorders of all trainers share: models, data, metrics and the trace. docs/conformance.md describes the
format.
"""

import hashlib
import json
import math

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

# ---- models: the parameter names are part of the format ----


def with_loss(logits, labels, criterion, loss_bias):
    if labels is None:
        return {"logits": logits}
    loss = criterion(logits, labels)
    return {"loss": loss if loss_bias is None else loss + loss_bias.mean(), "logits": logits}


class Regression(nn.Module):
    def __init__(self, shape=(), a=0.0, b=0.0):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.full(tuple(shape), a)), nn.Parameter(torch.full(tuple(shape), b))

    def forward(self, x, labels=None, loss_bias=None):
        return with_loss(x * self.a + self.b, labels, F.mse_loss, loss_bias)


class MLP(nn.Module):
    config = None  # Trainer asks for it when labels are smoothed

    def __init__(self, sizes, norm="none", activation="relu", dropout=0.0, loss="ce"):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(i, o) for i, o in zip(sizes, sizes[1:]))
        if norm != "none":
            self.norms = nn.ModuleList({"layer": nn.LayerNorm, "batch": nn.BatchNorm1d}[norm](o) for o in sizes[1:-1])
        self.norm, self.p = norm, dropout
        self.activation = {"relu": F.relu, "gelu": F.gelu, "tanh": torch.tanh}[activation]
        self.criterion = {"ce": F.cross_entropy, "mse": F.mse_loss}[loss]

    def forward(self, x, labels=None, loss_bias=None):
        for i, layer in enumerate(self.layers[:-1]):
            x = layer(x)
            x = self.norms[i](x) if self.norm != "none" else x
            x = F.dropout(self.activation(x), self.p, self.training)
        return with_loss(self.layers[-1](x), labels, self.criterion, loss_bias)


class CausalLM(nn.Module):
    def __init__(self, vocab, hidden, dropout=0.0, token_weighted=True):
        super().__init__()
        self.embed, self.block, self.head = (
            nn.Embedding(vocab, hidden),
            nn.Linear(hidden, hidden),
            nn.Linear(hidden, vocab),
        )
        self.p, self.accepts_loss_kwargs = dropout, token_weighted
        if token_weighted:
            self.loss_type = "ForCausalLM"  # Trainer then counts labels[:, 1:]

    def get_input_embeddings(self):
        return self.embed

    def forward(self, input_ids, labels=None, attention_mask=None, num_items_in_batch=None):
        logits = self.head(F.dropout(F.gelu(self.block(self.embed(input_ids))), self.p, self.training))
        if labels is None:
            return {"logits": logits}
        target = F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous().view(-1)
        flat = logits.float().view(-1, logits.shape[-1])
        if num_items_in_batch is None:
            return {"loss": F.cross_entropy(flat, target, ignore_index=-100), "logits": logits}
        return {
            "loss": F.cross_entropy(flat, target, ignore_index=-100, reduction="sum") / num_items_in_batch,
            "logits": logits,
        }


def bert(config, attn_implementation="eager"):
    from transformers import BertConfig, BertForSequenceClassification

    c = BertConfig(**config)
    c._attn_implementation = attn_implementation
    return BertForSequenceClassification(c)


def build(spec, folder):
    options = {k: v for k, v in spec["model"].items() if k not in ("kind", "freeze")}
    init = spec.get("init", "file")
    if isinstance(init, dict):
        torch.manual_seed(init["seed"])
    model = {"regression": Regression, "mlp": MLP, "causal_lm": CausalLM, "bert": bert}[spec["model"]["kind"]](
        **options
    )
    if init == "file":
        model.load_state_dict(load_file(f"{folder}/init.safetensors"))
    for name, p in model.named_parameters():
        p.requires_grad_(not any(name.startswith(f) for f in spec["model"].get("freeze", [])))
    return model


# ---- data: row i of every SPLIT.COLUMN tensor is sample i ----


class Rows(torch.utils.data.Dataset):
    def __init__(self, columns, trim):
        self.columns, self.trim = columns, trim

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, i):
        row = {k: v[i] for k, v in self.columns.items()}
        if self.trim:
            n = int(row["attention_mask"].sum())
            row = {k: v[:n] if v.dim() else v for k, v in row.items()}
        return {**row, "idx": torch.tensor(i)}


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return (self.rows[i] for i in range(len(self.rows)))


def collate(items):
    def column(k):
        values = [item[k] for item in items]
        if values[0].dim() == 1 and len({len(v) for v in values}) > 1:
            return nn.utils.rnn.pad_sequence(values, batch_first=True, padding_value=-100 if k == "labels" else 0)
        return torch.stack(values)

    return {k: column(k) for k in items[0]}


def sets(spec, folder):
    splits = {}
    for name, t in load_file(f"{folder}/data.safetensors").items():
        split, key = name.split(".", 1)
        splits.setdefault(split, {})[key] = t
    splits = {s: Rows(c, spec["data"].get("trim", False)) for s, c in splits.items()}
    if spec["data"].get("iterable"):
        splits["train"] = Stream(splits["train"])
    return splits


def make_data(spec):
    """Draws the tensors of data.make: {"train": rows, "eval": rows, "seed": n, ...}."""
    recipe, kind, out = spec["data"]["make"], spec["model"]["kind"], {}
    g = torch.Generator().manual_seed(recipe.get("seed", 0))
    w = torch.randn(8, 4, generator=g)
    for split in [s for s in recipe if s == "train" or s.startswith(("eval", "test"))]:
        n = recipe[split]
        if spec["data"]["kind"] == "tokens":
            length, vocab = recipe["length"], recipe["vocab"]
            lengths = torch.randint(recipe.get("min_length", length), length + 1, (n,), generator=g)
            mask = (torch.arange(length)[None] < lengths[:, None]).long()
            ids = torch.randint(5, vocab, (n, length), generator=g) * mask
            c = {"input_ids": ids, "attention_mask": mask, "labels": (ids[:, 0] + ids[:, 1]) % recipe.get("classes", 2)}
            if kind == "causal_lm":
                c["labels"] = torch.where(
                    (mask == 1) & (torch.arange(length)[None] >= recipe.get("prompt", 0)), ids, -100
                )
        elif kind == "regression":
            x = torch.randn(n, generator=g)
            c = {"x": x, "labels": 2 * x + 3 + 0.1 * torch.randn(n, generator=g)}
        else:
            x = torch.randn(n, 8, generator=g)
            y = x @ w + 0.5 * torch.randn(n, 4, generator=g)
            c = {"x": x, "labels": y if spec["model"].get("loss") == "mse" else y.argmax(1)}
        for row, key, value in recipe.get("bad", {}).get(split, []):
            c.setdefault(key, torch.zeros(n))[row] = float(value)
        out.update({f"{split}.{k}": v.contiguous() for k, v in c.items()})
    return out


# ---- metrics ----


def metrics(names, predictions, labels):
    def macro_f1(pred, ref):
        scores = []
        for c in sorted(set(pred.tolist()) | set(ref.tolist())):
            tp, n = int(((pred == c) & (ref == c)).sum()), int((pred == c).sum()) + int((ref == c).sum())
            scores.append(2 * tp / n if tp else 0.0)
        return sum(scores) / len(scores)

    predictions, labels, out = np.asarray(predictions), np.asarray(labels), {}
    for name in names:
        if name == "mae":
            out[name] = float(
                np.abs(predictions.reshape(-1).astype(np.float64) - labels.reshape(-1).astype(np.float64)).mean()
            )
            continue
        pred, ref = predictions.argmax(-1).reshape(-1), labels.reshape(-1)
        pred, ref = pred[ref != -100], ref[ref != -100]
        out[name] = float((pred == ref).mean()) if name == "accuracy" else macro_f1(pred, ref)
    return out


# ---- the trace ----


class Killed(Exception):
    """Stands for the end of the process."""


def hexed(x):
    return None if x is None else float(x).hex() if math.isfinite(float(x)) else repr(float(x))


def digest(named):
    h = hashlib.sha256()
    for name in sorted(named):
        h.update(named[name].detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return h.hexdigest()


def weights(model):
    named = dict(model.named_parameters())
    norm = math.sqrt(sum(float(named[n].detach().double().pow(2).sum()) for n in sorted(named)))
    return {"weights_norm": hexed(norm), "weights_sha256": digest(named)}


def without_clock(d):
    return {k: v for k, v in d.items() if not k.endswith(("_runtime", "_per_second", "_preparation_time"))}


class Recorder:
    def __init__(self):
        self.trace = {
            "phases": [],
            "initial": None,
            "batches": [],
            "micro_losses": [],
            "param_groups": [],
            "updates": [],
            "log_history": [],
            "events": [],
            "evaluations": [],
            "checkpoints": {"written": [], "after": []},
            "best": None,
            "train_output": None,
            "error": None,
        }
        self.window, self.order, self.where = [], [], "setup"

    def start(self, model):
        self.trace["initial"] = self.trace["initial"] or weights(model)

    def groups(self, model, optimizer):
        names = {id(p): n for n, p in model.named_parameters()}
        self.trace["param_groups"] = self.trace["param_groups"] or [
            {"weight_decay": g.get("weight_decay"), "params": [names[id(p)] for p in g["params"]]}
            for g in optimizer.param_groups
        ]

    def micro(self, idx, loss):
        self.trace["batches"].append([int(i) for i in idx])
        self.trace["micro_losses"].append(hexed(loss))
        self.window.append(hexed(loss))

    def update(self, number, epoch, norm, lr, model, skipped=False, **more):
        self.trace["updates"].append(
            {
                "update": number,
                "epoch": epoch,
                "loss_window": self.window,
                "grad_norm": hexed(norm),
                "lr": [hexed(v) for v in lr],
                "skipped": skipped,
                **more,
                **weights(model),
            }
        )
        self.window = []

    def evaluation(self, **fields):
        fields["seen"] = len(self.order)
        if self.order != list(range(len(self.order))):
            fields["order"] = self.order
        self.trace["evaluations"].append(fields)
        self.order = []

    def mark(self):
        return {k: len(self.trace[k]) for k in ("batches", "updates", "events", "evaluations")}

    def phase(self, do, before):
        self.trace["phases"].append({"do": do, **{k: v - before[k] for k, v in self.mark().items()}})

    def failed(self, e, folder):
        self.trace["error"] = {
            "where": self.where,
            "type": type(e).__name__,
            "text": str(e).replace(folder, "OUTPUT_DIR"),
        }


def tensors(model, optimizer):
    out = {n: t.detach().clone().contiguous() for n, t in model.state_dict().items()} if model is not None else {}
    names = {id(p): n for n, p in model.named_parameters()} if model is not None else {}
    for p, state in (optimizer.state if optimizer is not None else {}).items():
        for key, v in state.items():
            v = torch.tensor(v) if isinstance(v, (int, float)) else v
            if torch.is_tensor(v):
                out[f"optim.{names[id(p)]}.{key}"] = v.detach().clone().contiguous()
    return out


def dumps(trace):
    def clean(x):
        if isinstance(x, dict):
            return {str(k): clean(v) for k, v in x.items()}
        if isinstance(x, (list, tuple)):
            return [clean(v) for v in x]
        x = x.item() if hasattr(x, "item") else x
        return repr(x) if isinstance(x, float) and not math.isfinite(x) else x

    return "{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in clean(trace).items()) + "\n}\n"
