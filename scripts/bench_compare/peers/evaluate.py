"""Workload eval: bert_small inference over the MRPC dev set, loss, accuracy and F1."""

import contextlib
import sys
import tempfile
import time

import common as C

BATCH = 32
p = C.parser("eval", ["raw", "raw_tuned", "raw_sorted", "accelerate", "hf", "hf_tuned"])
p.add_argument("--passes", type=int)
p.add_argument("--init")
p.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
a = p.parse_args()
C.quiet()
torch = C.set_threads(a.threads)
import numpy as np

gpu = a.device.startswith("cuda")
if gpu and not torch.cuda.is_available():
    C.skip("eval", a.impl, "no CUDA device")
passes = a.passes or (1 if a.tiny else 20 if gpu else 3)
spec = C.spec_for("bert_small", precision=a.precision)
model = C.eval_model(torch, spec, a.init)
rows = C.mrpc("dev")
if a.tiny:
    rows = rows[:72]


def metrics(logits, labels):
    """Accuracy and F1 of class 1."""
    pred = logits.argmax(-1)
    tp = int(((pred == 1) & (labels == 1)).sum())
    fp, fn = int(((pred == 1) & (labels == 0)).sum()), int(((pred == 0) & (labels == 1)).sum())
    return {"accuracy": float((pred == labels).mean()), "f1": 2 * tp / max(1, 2 * tp + fp + fn)}


class Rows:
    def __len__(self):
        return len(rows)

    def __getitem__(self, i):
        return {"input_ids": rows[i][0], "token_type_ids": rows[i][1], "labels": rows[i][2]}


def plain():
    """One pass; the loss is the mean over samples of their batch's mean loss."""
    ctx = torch.no_grad() if a.impl == "raw" else torch.inference_mode()
    cast = (
        torch.autocast(a.device.split(":")[0], dtype=torch.bfloat16)
        if a.precision == "bf16"
        else contextlib.nullcontext()
    )
    logits, labels, loss = [], [], 0.0
    with ctx, cast:
        for b in loader:
            if a.impl != "accelerate":
                b = {k: v.to(a.device, non_blocking=True) for k, v in b.items()}
            out = model(**b)
            if a.impl == "accelerate":
                lg, lb = acc.gather_for_metrics((out.logits, b["labels"]))
            else:
                lg, lb = out.logits, b["labels"]
            if a.impl == "raw":
                loss += out.loss.item() * len(lb)
                lg, lb = lg.float().cpu(), lb.cpu()
            else:
                loss = loss + out.loss * len(lb)
            logits.append(lg)
            labels.append(lb)
    lg, lb = torch.cat(logits).float().cpu().numpy(), torch.cat(labels).cpu().numpy()
    return dict(metrics(lg, lb), loss=float(loss) / len(lb))


if a.impl in ("hf", "hf_tuned"):
    from transformers import Trainer, TrainingArguments

    tmp = tempfile.TemporaryDirectory()
    kw = dict(
        output_dir=tmp.name, per_device_eval_batch_size=BATCH, report_to=[], use_cpu=not gpu, bf16=a.precision == "bf16"
    )
    if a.impl == "hf_tuned":
        kw.update(disable_tqdm=True, remove_unused_columns=False, dataloader_pin_memory=gpu)
    with contextlib.redirect_stdout(sys.stderr):
        tr = Trainer(
            model=model,
            args=TrainingArguments(**kw),
            eval_dataset=Rows(),
            data_collator=C.hf_collate(),
            compute_metrics=lambda e: metrics(e.predictions, e.label_ids),
        )

    def one():
        with contextlib.redirect_stdout(sys.stderr):
            m = tr.evaluate()
        return {"loss": m["eval_loss"], "accuracy": m["eval_accuracy"], "f1": m["eval_f1"]}
else:
    if a.impl == "raw_sorted":  # not the same batches: the order of lengths saves padding
        rows.sort(key=lambda r: len(r[0]))
    loader = torch.utils.data.DataLoader(Rows(), batch_size=BATCH, collate_fn=C.bert_collate(torch))
    if a.impl == "raw_tuned" or a.impl == "raw_sorted":
        loader = list(loader)  # collate once, as the set does not change between passes
    if a.impl == "accelerate":
        from accelerate import Accelerator

        acc = Accelerator(cpu=not gpu, mixed_precision="bf16" if a.precision == "bf16" else None)
        model, loader = acc.prepare(model, loader)
    else:
        model = model.to(a.device)
    model.eval()
    one = plain

r = one()  # warm-up pass
first = time.time() - C.PROCESS_START
if gpu:
    torch.cuda.synchronize()
t0 = time.perf_counter()
for _ in range(passes):
    r = one()
if gpu:
    torch.cuda.synchronize()
sec = time.perf_counter() - t0
C.result(
    "eval",
    a.impl,
    passes * ((len(rows) + BATCH - 1) // BATCH),
    sec,
    passes * len(rows),
    first,
    round(r["loss"], 6),
    round(r["loss"], 6),
    torch.get_num_threads(),
    accuracy=round(r["accuracy"], 6),
    f1=round(r["f1"], 6),
    precision=a.precision,
    device=a.device,
)
