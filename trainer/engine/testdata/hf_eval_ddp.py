"""Writes hf_eval_ddp.safetensors and hf_eval_ddp.json: evaluations and predictions of transformers.Trainer 5.17 with
the tagger of hf_ddp.py, on one, two and three processes over gloo, of sets and streams whose batches do not come out
even. evalshare_test.go repeats them.
"""

import json
import os
import sys

import hf_ddp
import numpy
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional as F
from torch.utils.data import IterableDataset
from transformers import Trainer, TrainingArguments

here = os.path.dirname(os.path.abspath(__file__))
WIDTH = 8


class Stream(IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)


def fixed(samples):
    pad = lambda t, v: F.pad(t, (0, WIDTH - len(t)), value=v)
    return {
        "input_ids": torch.stack([pad(s["input_ids"], 0) for s in samples]),
        "labels": torch.stack([pad(s["labels"], -100) for s in samples]),
    }


def whole(p):
    out = {
        "right": float((p.predictions.argmax(-1) == p.label_ids).sum()),
        "rows": float(p.predictions.shape[0]),
        "width": float(p.predictions.shape[1]),
    }
    if p.losses is not None:
        out["losses"] = float(p.losses.shape[0])
    if p.inputs is not None:
        out["inputs"] = float(p.inputs.sum())
    return out


def chosen(p):  # after preprocess_logits_for_metrics
    return {
        "right": float((p.predictions == p.label_ids).sum()),
        "rows": float(p.predictions.shape[0]),
        "sum": float(p.predictions.sum()),
    }


class Batches:
    def __init__(self):
        self.sizes, self.right = [], 0.0

    def __call__(self, p, compute_result):
        self.sizes.append(p.predictions.shape[0])
        self.right += float((p.predictions.argmax(-1) == p.label_ids).sum())
        if not compute_result:
            return {}
        out = {"right": self.right, "calls": float(len(self.sizes)), "rows": float(sum(self.sizes))}
        self.sizes, self.right = [], 0.0
        return out


# name: model, rows, stream, compute_metrics, arguments
CASES = {
    "11 rows": (hf_ddp.Tagger, 11, False, "whole", {}),
    "21 rows": (hf_ddp.Tagger, 21, False, "whole", {}),
    "16 rows": (hf_ddp.Tagger, 16, False, "whole", {}),
    "3 rows": (hf_ddp.Tagger, 3, False, "whole", {}),
    "1 row": (hf_ddp.Tagger, 1, False, "whole", {}),
    "loss only": (hf_ddp.Tagger, 21, False, None, {}),
    "counted items": (hf_ddp.Counting, 21, False, "whole", {}),
    "chosen classes": (hf_ddp.Tagger, 21, False, "chosen", {}),
    "batch by batch": (hf_ddp.Tagger, 21, False, "batches", {"batch_eval_metrics": True}),
    "accumulation": (hf_ddp.Tagger, 21, False, "whole", {"eval_accumulation_steps": 1}),
    "last dropped": (hf_ddp.Tagger, 21, False, "whole", {"dataloader_drop_last": True}),
    "inputs and losses": (hf_ddp.Tagger, 11, False, "whole", {"include_for_metrics": ["inputs", "loss"]}),
    "stream of 11": (hf_ddp.Tagger, 11, True, "whole", {}),
    "stream of 21": (hf_ddp.Tagger, 21, True, "whole", {}),
    "stream of 16": (hf_ddp.Tagger, 16, True, "whole", {}),
    "stream of 1": (hf_ddp.Tagger, 1, True, "whole", {}),
    "stream of counted items": (hf_ddp.Counting, 21, True, "whole", {}),
    "stream, last dropped": (hf_ddp.Tagger, 21, True, "whole", {"dataloader_drop_last": True}),
    "training": (hf_ddp.Tagger, 11, False, "whole", {"num_train_epochs": 2, "eval_strategy": "epoch"}),
    "training with a stream": (hf_ddp.Tagger, 11, True, "whole", {"num_train_epochs": 2, "eval_strategy": "epoch"}),
}


def run(rank, world, port, out):
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    torch.set_num_threads(1)
    everything = hf_ddp.rows()
    weights = load_file(os.path.join(here, "hf_ddp.safetensors"))
    records, tensors = [], {}
    for name, (model, n, stream, metrics, kwargs) in CASES.items():
        if stream and n < world - n:  # a process would get an empty batch, and the others wait for it for ever
            continue
        net = model(0.0)
        net.load_state_dict({k: weights[f"plain/init/{k}"].clone() for k in net.state_dict()})
        seen = []
        collate = fixed if stream else hf_ddp.collate

        def collated(samples):
            seen.append([s["index"] for s in samples])
            return collate(samples)

        rows = [{"index": i, "input_ids": s["input_ids"], "labels": s["labels"]} for i, s in enumerate(everything[:n])]
        train = [
            {"index": i, "input_ids": s["input_ids"], "labels": s["labels"]} for i, s in enumerate(everything[:21])
        ]
        a = TrainingArguments(
            output_dir="/tmp/unused",
            report_to=[],
            use_cpu=True,
            ddp_backend="gloo" if world > 1 else None,
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
        t = Trainer(
            model=net,
            args=a,
            data_collator=collated,
            train_dataset=train,
            eval_dataset=Stream(rows) if stream else rows,
            compute_metrics={"whole": whole, "chosen": chosen, "batches": Batches(), None: None}[metrics],
            preprocess_logits_for_metrics=(lambda logits, labels: logits.argmax(-1)) if metrics == "chosen" else None,
        )
        if not name.startswith("training"):
            torch.manual_seed(5 + rank)
        if name.startswith("training"):
            t.train()
            logs = [r for r in t.state.log_history if "eval_loss" in r]
        else:
            logs = [t.evaluate()]
        batches = list(seen)
        keep = ["right", "rows", "width", "sum", "losses", "inputs", "calls"]
        record = {
            "name": name,
            "world": world,
            "batches": batches,
            "losses": [float(m["eval_loss"]).hex() if "eval_loss" in m else "" for m in logs],
            "metrics": [{k: m[f"eval_{k}"] for k in keep if f"eval_{k}" in m} for m in logs],
            "model_preparation_time": "eval_model_preparation_time" in logs[0],
        }
        tensors[f"{world}/{name}/{rank}/next"] = torch.rand(2)
        if name in ("11 rows", "21 rows", "chosen classes", "stream of 11", "stream of 21"):
            p = t.predict(Stream(rows) if stream else rows)
            record["test_loss"] = float(p.metrics["test_loss"]).hex()
            tensors[f"{world}/{name}/{rank}/predictions"] = torch.from_numpy(p.predictions.copy())
            tensors[f"{world}/{name}/{rank}/label_ids"] = torch.from_numpy(p.label_ids.copy())
        records.append(record)
    save_file(tensors, f"{out}.{rank}.tensors")
    with open(f"{out}.{rank}.json", "w") as f:
        json.dump(records, f)


if __name__ == "__main__":
    tensors, runs = {}, []
    for world in (1, 2, 3):
        out = os.path.join(here, "hf_eval_ddp.tmp")
        torch.multiprocessing.spawn(run, (world, hf_ddp.free_port(), out), nprocs=world)
        all_records = []
        for rank in range(world):
            part = load_file(f"{out}.{rank}.tensors")
            for k, v in part.items():
                _, name, _, what = k.split("/")
                if what == "next" or rank == 0:
                    tensors[k] = v
                else:
                    assert torch.equal(v, tensors[f"{world}/{name}/0/{what}"]), k
            with open(f"{out}.{rank}.json") as f:
                all_records.append(json.load(f))
            os.remove(f"{out}.{rank}.tensors"), os.remove(f"{out}.{rank}.json")
        for same in zip(*all_records):
            for r in same[1:]:
                assert {**r, "batches": 0} == {**same[0], "batches": 0}, (r, same[0])
            runs.append({**same[0], "batches": [r["batches"] for r in same]})
    save_file(tensors, os.path.join(here, "hf_eval_ddp.safetensors"), {"torch": torch.__version__})
    with open(os.path.join(here, "hf_eval_ddp.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(r) for r in runs) + "\n]\n")
