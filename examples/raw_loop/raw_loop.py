"""The Python of bare.go and accelerated.go: chapter 3 of the Hugging Face course, with a seed and with the numbers
printed in full.

    python raw_loop.py --model BERT --data MRPC [--accelerate [--mixed-precision bf16]]

examples/bert_classification/scripts/mrpc_trainer.py makes a small BERT ("start"). Where both programs run with the
environment below, their output is the same. Made for torch 2.11.0, transformers 5.17, accelerate 1.15.
"""

import argparse
import csv
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from sklearn.metrics import accuracy_score, f1_score
from torch.optim import AdamW
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, get_scheduler

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--model", required=True)
parser.add_argument("--data", required=True)
parser.add_argument("--accelerate", action="store_true")
parser.add_argument("--mixed-precision", default="no")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--max-length", type=int, default=128)
parser.add_argument("--lr", type=float, default=5e-5)
parser.add_argument("--seed", type=int, default=42)
a = parser.parse_args()

tokenizer = AutoTokenizer.from_pretrained(a.model)


def encoded(part):
    with open(os.path.join(a.data, part + ".tsv"), encoding="utf-8-sig", newline="") as f:
        rows = list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        dict(
            tokenizer(r["#1 String"], r["#2 String"], truncation=True, max_length=a.max_length),
            labels=int(r["Quality"]),
        )
        for r in rows
    ]


train, validation = encoded("train"), encoded("dev")
data_collator = DataCollatorWithPadding(tokenizer)
model = AutoModelForSequenceClassification.from_pretrained(a.model, num_labels=2)

torch.manual_seed(a.seed)
train_dataloader = DataLoader(train, shuffle=True, batch_size=8, collate_fn=data_collator)
eval_dataloader = DataLoader(validation, batch_size=8, collate_fn=data_collator)
optimizer = AdamW(model.parameters(), lr=a.lr)
num_training_steps = a.epochs * len(train_dataloader)
lr_scheduler = get_scheduler("linear", optimizer=optimizer, num_warmup_steps=0, num_training_steps=num_training_steps)
accelerator = None
if a.accelerate:
    from accelerate import Accelerator

    accelerator = Accelerator(mixed_precision=a.mixed_precision, cpu=True)
    train_dataloader, eval_dataloader, model, optimizer, lr_scheduler = accelerator.prepare(
        train_dataloader, eval_dataloader, model, optimizer, lr_scheduler
    )
print(
    f"{len(train)} texts to learn from, {len(validation)} to evaluate with; {len(train_dataloader)} batches an epoch, {num_training_steps} updates"
)

model.train()
updates = 0
for epoch in range(a.epochs):
    for batch in train_dataloader:
        outputs = model(**batch)
        loss = outputs.loss
        if accelerator:
            accelerator.backward(loss)
        else:
            loss.backward()
        optimizer.step()
        lr_scheduler.step()
        optimizer.zero_grad()
        updates += 1
        if updates % 100 == 0:
            print("update", updates, "loss", loss.item())

model.eval()
predictions, references = [], []
for batch in eval_dataloader:
    with torch.no_grad():
        outputs = model(**batch)
    predicted, labels = outputs.logits.argmax(-1), batch["labels"]
    if accelerator:
        predicted, labels = accelerator.gather_for_metrics((predicted, labels))
    predictions += predicted.tolist()
    references += labels.tolist()
print("accuracy", accuracy_score(references, predictions), "f1", f1_score(references, predictions))
