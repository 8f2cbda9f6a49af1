#!/usr/bin/env python3
"""Trains with Hezar's own Trainer and with gotrainer on the same plates, initial weights and order, and compares the
curves.

    python scripts/hezar_curve.py           # a quarter of Hezar's width, with a fresh classifier
    python scripts/hezar_curve.py --full    # CRNNImage2Text as Hezar makes it

It prints both curves epoch by epoch, and the largest difference. examples/hezar_plates renders the plates and is the
Go side. Both sides run with one thread and the same code paths of libtorch's libraries.

Run it from the root of the repository, with hezar 1.0.0, torch 2.11.0 and Go. The Go side finds libtorch as always
(GOTRAINER_LIB).
"""

import argparse
import contextlib
import csv
import io
import math
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "golden"))
import pins  # noqa: E402, F401

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import torch
from hezar.data import OCRDataset, OCRDatasetConfig
from hezar.models import CRNNImage2Text, CRNNImage2TextConfig
from hezar.models.image2text.crnn.crnn_image2text import ConvBlock
from hezar.preprocessors import Preprocessor
from hezar.trainer import Trainer, TrainerConfig
from safetensors.torch import load_file
from torch import nn

torch.set_num_threads(1)
COLUMNS = ["train.loss", "evaluation.loss", "evaluation.cer"]


class Narrow(CRNNImage2Text):
    """Hezar's model with a quarter of its width: its convolutions are the only sizes that its configuration does not
    have
    """

    def __init__(self, config, **kwargs):
        super().__init__(config, **kwargs)
        self.cnn = nn.Sequential(
            ConvBlock(1, 16, 3, 1, 1),
            nn.MaxPool2d(2, 2),
            ConvBlock(16, 32, 3, 1, 1),
            nn.MaxPool2d(2, 2),
            ConvBlock(32, 64, 3, 1, 1),
            ConvBlock(64, 64, 3, 1, 1),
            nn.MaxPool2d((2, 1)),
            ConvBlock(64, 128, 3, 1, 1, batch_norm=True),
            ConvBlock(128, 128, 3, 1, 1, batch_norm=True),
            nn.MaxPool2d((2, 1)),
            ConvBlock(128, 128, 3, 1, 1),
        )


def new_model(full):
    id2label = OCRDatasetConfig().id2label
    if full:
        return CRNNImage2Text(CRNNImage2TextConfig(id2label=id2label, map2seq_in_dim=1024))
    return Narrow(CRNNImage2TextConfig(id2label=id2label, map2seq_in_dim=256, rnn_dim=96))


def mirrored(weights):
    """A model that reads a picture reads its mirror image with these: kernels turned round, and the directions of the
    LSTMs exchanged
    """
    out = {}
    for name, w in weights.items():
        w = w.float() if w.is_floating_point() else w
        if name.endswith("conv.weight"):
            w = w.flip(3)
        if name.startswith("rnn2.weight_ih") or name == "classifier.weight":
            w = torch.cat([w[:, w.size(1) // 2 :], w[:, : w.size(1) // 2]], 1)
        if name.startswith("rnn"):
            name = name.removesuffix("_reverse") if name.endswith("_reverse") else name + "_reverse"
        out[name] = w.contiguous()
    return out


def write_initial(folder, full, pretrained):
    """The weights that both start from. Narrow: the weights that come with examples/crnn_plates, but for the
    classifier, so that there is something to learn
    """
    torch.manual_seed(42)
    model = new_model(full)
    if not full:
        weights = mirrored(load_file(pretrained))
        weights.update({n: w for n, w in model.state_dict().items() if n.startswith("classifier.")})
        model.load_state_dict(weights)
    torch.save(model.state_dict(), folder / "model.pt")


def hezar(args):
    OCRDataset.cache_dir = "cache"

    def load(split):
        return OCRDataset(
            OCRDatasetConfig(
                path="csv",
                max_length=8,
                reverse_digits=True,
                hf_load_kwargs={"data_files": {"train": "train.csv", "test": "test.csv"}},
            ),
            split=split,
            preprocessor="base",
        )

    train_dataset, eval_dataset = load("train"), load("test")
    config = TrainerConfig(
        output_dir="hezar",
        task="image2text",
        device="cuda",
        init_weights_from="base",
        batch_size=8,
        num_epochs=args.epochs,
        learning_rate=args.lr,
        metrics=["cer"],
        metric_for_best_model="cer",
        use_cpu=True,
    )
    Trainer(
        config=config,
        model=new_model(args.full),
        train_dataset=train_dataset,
        eval_dataset=eval_dataset,
        data_collator=train_dataset.data_collator,
        preprocessor=Preprocessor.load("base"),
    ).train()


def gotrainer(args, program):
    subprocess.run(
        [
            program,
            *([] if args.full else ["-small"]),
            "-exact",
            "-epochs",
            str(args.epochs),
            "-lr",
            repr(args.lr),
            "-out",
            "go",
            ".",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def timed(work, *args):
    """Seconds of the processor, those of a program that was started included"""
    start = sum(os.times()[:4])
    work(*args)
    return sum(os.times()[:4]) - start


def logs(run):
    """The rows of training_logs.csv, whose numbers are written so that they read back the same"""
    with next(pathlib.Path(run, "logs").glob("*/training_logs.csv")).open() as f:
        return [(int(row["step"]), [float(row[c]) for c in COLUMNS]) for row in csv.DictReader(f)]


def tensors(checkpoint):
    """All tensors of a checkpoint: the model's, and what Adam keeps of each parameter"""
    out = {"model." + n: t for n, t in torch.load(checkpoint / "model.pt").items()}
    for i, state in torch.load(checkpoint / "train/optimizer.pt")["state"].items():
        out.update({f"optimizer.{i}.{n}": t for n, t in state.items()})
    return out


def bits(t):
    return t.dtype, t.shape, t.contiguous().numpy().tobytes()


def differences(a, b):
    """Names of the tensors of two checkpoints whose bits differ, and the largest difference between two numbers"""
    a, b = tensors(a), tensors(b)
    if a.keys() != b.keys():
        sys.exit(f"one side only has {sorted(a.keys() ^ b.keys())}")
    return (
        len(a),
        [n for n in a if bits(a[n]) != bits(b[n])],
        max((a[n].double() - b[n].double()).abs().max().item() for n in a),
    )


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--full", action="store_true", help="Hezar's own width")
    p.add_argument("--plates", type=int, help="of the training; a fifth as many are read at the end of each epoch")
    p.add_argument("--epochs", type=int)
    p.add_argument("--lr", type=float)
    args = p.parse_args()
    args.plates, args.epochs, args.lr = (
        args.plates or (96 if args.full else 320),
        args.epochs or (4 if args.full else 12),
        args.lr or (1e-4 if args.full else 5e-4),
    )
    pretrained = pathlib.Path("models/platereader/pretrained/model.safetensors").resolve()
    with tempfile.TemporaryDirectory() as tmp:
        tmp = pathlib.Path(tmp)
        program = str(tmp / "hezar_plates")
        subprocess.run(["go", "build", "-o", program, "./examples/hezar_plates"], check=True)
        data = tmp / "plates"
        subprocess.run(
            [program, *([] if args.full else ["-small"]), "-render", str(args.plates), str(data)], check=True
        )
        write_initial(data / "base", args.full, pretrained)
        os.chdir(data)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            python = timed(hezar, args)
        go = timed(gotrainer, args, program)
        failed = report(args, python, go)
        os.chdir("/")
    sys.exit(failed)


def report(args, python, go):
    """Prints the table; true if anything differs"""
    a, b = logs("hezar"), logs("go")
    steps = [step for step, _ in a]
    if steps != [step for step, _ in b]:
        sys.exit(f"evaluated at {steps} by Hezar, at {[step for step, _ in b]} by gotrainer")
    print(
        f"{args.plates} plates, {args.epochs} epochs of batches of 8, Adam at {args.lr:g}; processor time: Hezar {python:.0f} s, gotrainer {go:.0f} s"
    )
    print(
        "| epoch | running loss: Hezar | gotrainer | loss on held-out plates: Hezar | gotrainer | CER: Hezar | gotrainer | tensors of the checkpoint that differ |"
    )
    print("|" + " ---: |" * 8)
    apart, unequal = [], []
    for epoch, ((step, hezars), (_, ours)) in enumerate(zip(a, b), 1):
        name = str(step).zfill(len(str(steps[-1])))
        count, names, difference = differences(
            pathlib.Path("hezar/checkpoints") / name, pathlib.Path("go/checkpoints") / name
        )
        print(
            f"| {epoch} | "
            + " | ".join(f"{v!r}" for pair in zip(hezars, ours) for v in pair)
            + f" | {len(names)} of {count} |"
        )
        if names and not unequal:
            print("the first that differ, in the order of the files:", *names[:5])
        apart += [difference, *(abs(x - y) for x, y in zip(hezars, ours))]
        unequal += names
    finite = all(map(math.isfinite, apart))
    print(f"largest difference of any number in the logs and checkpoints: {max(apart) if finite else math.nan:g}")
    return bool(unequal) or not finite or max(apart) > 0


main()
