#!/usr/bin/env python3
"""A run that changes its language twice ends with the same bits as one that does not.

    python scripts/checkpoint_interop.py

A BERT with dropout is trained for nine updates of transformers' Trainer, on shuffled data and past the end of an
epoch: in Python alone, in Go alone, and with three updates in one language, three in the other and three in the first
again. Each process continues from the newest checkpoint in the folder. The final weights, moments, random states and
losses are compared with those of Python alone. Nine updates of an Accelerate loop are compared in the same way, with
the folders of save_state.

Run it from the root of the repository, with torch 2.11.0 and transformers 5.17.0. The Go side finds libtorch as always
(GOTRAINER_LIB).
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "golden"))
import pins  # noqa: E402, F401

os.environ["HF_HUB_OFFLINE"] = "1"
import accelerate
import torch
import transformers
from safetensors.torch import load_file
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

torch.set_num_threads(1)
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


class StopAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        control.should_training_stop = control.should_training_stop or state.global_step == self.step


def python(model, run, stop):
    rows = [
        {"input_ids": torch.tensor(r["input_ids"]), "labels": r["labels"]}
        for r in json.loads((model / "rows.json").read_text())
    ]
    args = TrainingArguments(
        output_dir=str(run),
        per_device_train_batch_size=4,
        max_steps=9,
        save_steps=3,
        logging_steps=1,
        learning_rate=1e-3,
        weight_decay=0.01,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(
        BertForSequenceClassification.from_pretrained(model), args, train_dataset=rows, callbacks=[StopAt(stop)]
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=any(run.glob("checkpoint-*")))


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program, model = folder / "program", folder / "model"
        subprocess.run(["go", "build", "-o", program, "./scripts/checkpoint_interop"], check=True)
        torch.manual_seed(1)
        config = BertConfig(
            vocab_size=100,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            max_position_embeddings=16,
            num_labels=3,
        )
        BertForSequenceClassification(config).save_pretrained(model)
        g = torch.Generator().manual_seed(2)
        (model / "rows.json").write_text(
            json.dumps(
                [{"input_ids": torch.randint(1, 100, (8,), generator=g).tolist(), "labels": i % 3} for i in range(20)]
            )
        )

        def go(model, run, stop):
            subprocess.run([program, model, run, str(stop)], check=True)

        def result(name, *legs):
            run = folder / name
            for stop, leg in zip((3, 6, 9) if len(legs) == 3 else (9,), legs):
                leg(model, run, stop)
            return run

        def read(run):
            last = run / "checkpoint-9"
            optimizer = torch.load(last / "optimizer.pt", weights_only=True)
            with transformers.trainer_pt_utils.safe_globals():
                random = torch.load(last / "rng_state.pth", weights_only=True)
            log = [
                (r["step"], r["loss"], r["grad_norm"], r["learning_rate"])
                for r in json.loads((last / "trainer_state.json").read_text())["log_history"]
                if "loss" in r
            ]
            return {
                "weights": load_file(last / "model.safetensors"),
                "moments": {f"{i}.{k}": v for i, s in optimizer["state"].items() for k, v in s.items()},
                "torch": {"cpu": random["cpu"]},
                "python": random["python"],
                "numpy": [
                    list(map(int, p)) if hasattr(p, "__len__") and not isinstance(p, str) else p
                    for p in random["numpy"]
                ],
                "schedule": {
                    k: v for k, v in torch.load(last / "scheduler.pt", weights_only=True).items() if k != "lr_lambdas"
                },
                "log": log,
            }

        def equal(a, b):
            if isinstance(a, dict) and all(isinstance(v, torch.Tensor) for v in a.values()):
                return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)
            return a == b

        runs = {
            "python": (python,),
            "go": (go,),
            "python, go, python": (python, go, python),
            "go, python, go": (go, python, go),
            "python, python, python": (python, python, python),
            "go, go, go": (go, go, go),
            "python, python, go": (python, python, go),
            "go, go, python": (go, go, python),
        }
        want, failed = read(result("python", python)), False
        print(
            f"{len(want['weights'])} weights, {len(want['moments'])} tensors of the optimizer, {len(want['log'])} rows of the log; equal to the last bit to Python alone:"
        )
        for name, legs in list(runs.items())[1:]:
            got = read(result(name, *legs))
            row = {k: equal(want[k], got[k]) for k in want}
            failed |= not all(row.values())
            print(f"{name:24}" + "  ".join(f"{k} {'yes' if v else 'NO'}" for k, v in row.items()))
            for k in [k for k in row if not row[k]]:
                print("   ", k, str(want[k])[:300], "|", str(got[k])[:300])
        return failed | states(folder, program)


def states(folder, program):
    def continue_state(run, first, last):
        accelerate.utils.set_seed(5)
        accelerator = accelerate.Accelerator(cpu=True)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 3))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
        model, optimizer, scheduler = accelerator.prepare(
            model, optimizer, transformers.get_linear_schedule_with_warmup(optimizer, 0, 9)
        )
        if first is None:
            accelerator.save_state(str(run / "state-0"))
            return
        accelerator.load_state(str(run / f"state-{first}"))
        x = torch.load(run / "batches.pt")["x"]
        for i in range(first, last):
            accelerator.backward(model(x[i]).square().mean())
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        accelerator.save_state(str(run / f"state-{last}"))

    def go(run, first, last):
        subprocess.run([program, "state", run, str(first), str(last)], check=True)

    def read(name, *legs):
        run = folder / f"states of {name}"
        run.mkdir()
        torch.save({"x": torch.randn(9, 5, 4, generator=torch.Generator().manual_seed(1))}, run / "batches.pt")
        continue_state(run, None, 0)
        stops = (0, 3, 6, 9) if len(legs) == 3 else (0, 9)
        for first, last, leg in zip(stops, stops[1:], legs):
            leg(run, first, last)
        end = run / "state-9"
        optimizer = torch.load(end / "optimizer.bin", weights_only=True)
        with transformers.trainer_pt_utils.safe_globals():
            random = torch.load(end / "random_states_0.pkl", weights_only=True)
        tensors = (
            load_file(end / "model.safetensors")
            | {f"{i}.{k}": v for i, s in optimizer["state"].items() for k, v in s.items()}
            | {"cpu": random["torch_manual_seed"]}
        )
        return (
            tensors,
            random["random_state"],
            [
                list(map(int, p)) if hasattr(p, "__len__") and not isinstance(p, str) else p
                for p in random["numpy_random_seed"]
            ],
        )

    python, failed = continue_state, False
    want = read("python", python)
    for name, legs in {
        "go": (go,),
        "python, go, python": (python, go, python),
        "go, python, go": (go, python, go),
    }.items():
        got = read(name, *legs)
        row = {
            "tensors": want[0].keys() == got[0].keys() and all(torch.equal(want[0][k], got[0][k]) for k in want[0]),
            "python": want[1] == got[1],
            "numpy": want[2] == got[2],
        }
        failed |= not all(row.values())
        print(f"accelerate: {name:24}" + "  ".join(f"{k} {'yes' if v else 'NO'}" for k, v in row.items()))
    return failed


if __name__ == "__main__":
    sys.exit(main())
