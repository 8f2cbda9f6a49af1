"""MRPC under transformers' Trainer, to be held beside the same run in Go: same start, seed, order and settings.

    python mrpc_trainer.py start   --data MRPC --start start             # a small random BERT and its vocabulary, saved once
    python mrpc_trainer.py train   --data MRPC --start start --out py    # transformers.Trainer
    GOTRAINER_REPRODUCIBLE=1 go run ./examples/bert_classification -task mrpc -data MRPC -model start -out go -lr 5e-4 -log 50 -semantics huggingface
    python mrpc_trainer.py compare --out py --go go

MRPC is the folder with train.tsv and dev.tsv of GLUE. Batch 8, 3 epochs and a linear schedule are the settings of the
Hugging Face course: 459 batches an epoch, 1,377 updates. The rate is ten times the course's, since the weights are
random. Made for torch 2.11.0, transformers 5.17, tokenizers 0.23.
"""

import argparse
import csv
import json
import os
import struct
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

os.environ["HF_HUB_OFFLINE"] = "1"

SEED, RATE, LENGTH = 42, 5e-4, 128


def rows(folder, part):
    with open(os.path.join(folder, part + ".tsv"), encoding="utf-8-sig", newline="") as f:
        return [
            (r["#1 String"], r["#2 String"], int(r["Quality"]))
            for r in csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE)
        ]


def start(a):
    import torch
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    texts = [text for r in rows(a.data, "train") for text in r[:2]]
    trained = BertWordPieceTokenizer(lowercase=True)
    trained.train_from_iterator(texts, vocab_size=4000, min_frequency=2, show_progress=False)
    tokenizer = BertTokenizer(vocab=trained.get_vocab(), do_lower_case=True, model_max_length=LENGTH)
    tokenizer.save_pretrained(a.start)
    torch.manual_seed(SEED)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=LENGTH,
        id2label={0: "not_equivalent", 1: "equivalent"},
        label2id={"not_equivalent": 0, "equivalent": 1},
    )
    BertForSequenceClassification(config).save_pretrained(a.start)


def train(a):
    from sklearn.metrics import accuracy_score, f1_score
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        Trainer,
        TrainingArguments,
    )

    tokenizer = AutoTokenizer.from_pretrained(a.start)

    def encoded(part):
        return [
            dict(tokenizer(one, two, truncation=True, max_length=LENGTH), label=label)
            for one, two, label in rows(a.data, part)
        ]

    def compute_metrics(p):
        predicted = p.predictions.argmax(-1)
        return {"accuracy": accuracy_score(p.label_ids, predicted), "f1": f1_score(p.label_ids, predicted)}

    model = AutoModelForSequenceClassification.from_pretrained(a.start)
    args = TrainingArguments(
        a.out,
        eval_strategy="epoch",
        save_strategy="epoch",
        save_total_limit=1,
        logging_steps=50,
        learning_rate=RATE,
        seed=SEED,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        num_train_epochs=3,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=encoded("train"),
        eval_dataset=encoded("dev"),
        data_collator=DataCollatorWithPadding(tokenizer),
        compute_metrics=compute_metrics,
    )
    print(len(trainer.get_train_dataloader()), "batches an epoch")
    trainer.train()
    trainer.save_model(os.path.join(a.out, "model"))
    trainer.save_state()


def tensors(path):
    """The raw bytes of each tensor of a safetensors file."""
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        body = f.read()
    return {name: body[slice(*t["data_offsets"])] for name, t in head.items() if name != "__metadata__"}


def compare(a):
    with open(os.path.join(a.out, "trainer_state.json")) as f:
        python = [r for r in json.load(f)["log_history"] if "loss" in r or "eval_loss" in r]
    with open(os.path.join(a.go, "metrics.jsonl")) as f:
        go = [r for r in map(json.loads, f) if "loss" in r or "eval_loss" in r]
    different = 0
    for p, g in zip(python, go, strict=True):
        keys = [
            k for k in ("step", "loss", "grad_norm", "learning_rate", "eval_loss", "eval_accuracy", "eval_f1") if k in p
        ]
        same = all(p[k] == g[k] for k in keys)
        different += not same
        if "eval_loss" in p or not same:
            print("same     " if same else "different", *(f"{k} {p[k]!r} {g[k]!r} " for k in keys))
    one, two = (
        tensors(os.path.join(a.out, "model", "model.safetensors")),
        tensors(os.path.join(a.go, "model", "model.safetensors")),
    )
    assert one.keys() == two.keys(), set(one) ^ set(two)
    unequal = [name for name in one if one[name] != two[name]]
    print(
        f"{len(python)} rows of the log, {different} of them different; {len(one)} tensors of the final model, {len(unequal)} of them different"
    )
    raise SystemExit(different + len(unequal) > 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["start", "train", "compare"])
    parser.add_argument("--data", help="folder with train.tsv and dev.tsv")
    parser.add_argument("--start", help="folder of the model to begin with")
    parser.add_argument("--out", help="folder of the Python run")
    parser.add_argument("--go", help="folder of the Go run")
    a = parser.parse_args()
    {"start": start, "train": train, "compare": compare}[a.what](a)
