"""The two loops written by hand: the raw one of the Hugging Face course, and the same with Accelerate."""

import contextlib
import os
import tempfile

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import DataLoaderConfiguration, GradientAccumulationPlugin, ProjectConfiguration, set_seed
from transformers import get_scheduler

import parts

OPTIMIZERS = {
    n.lower(): getattr(torch.optim, n)
    for n in ("AdamW", "Adam", "SGD", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax", "Adadelta")
}


def optimizer(a, model):
    params, decay = [p for p in model.parameters() if p.requires_grad], a.get("weight_decay")
    kwargs = {k: tuple(v) if k == "betas" else v for k, v in a.get("optimizer_kwargs", {}).items()}
    if a.get("no_decay"):
        hit = [any(part in n for part in a["no_decay"]) for n, _ in model.named_parameters()]
        params = [
            {"params": [p for p, h in zip(model.parameters(), hit) if not h], "weight_decay": decay or 0.0},
            {"params": [p for p, h in zip(model.parameters(), hit) if h], "weight_decay": 0.0},
        ]
    elif decay is not None:
        kwargs["weight_decay"] = decay
    return OPTIMIZERS[a.get("optimizer", "adamw")](params, lr=a.get("learning_rate", 5e-5), **kwargs)


def schedule(a, opt, total):
    if a.get("torch_scheduler"):
        return getattr(torch.optim.lr_scheduler, a["torch_scheduler"])(opt, **a.get("scheduler_kwargs", {}))
    return get_scheduler(
        a.get("lr_scheduler", "linear"),
        optimizer=opt,
        num_warmup_steps=a.get("num_warmup_steps", 0),
        num_training_steps=total,
        scheduler_specific_kwargs=a.get("scheduler_kwargs"),
    )


def loaders(a, sets):
    size = a.get("batch_size", 8)
    train = torch.utils.data.DataLoader(
        sets["train"],
        shuffle=a.get("shuffle", True),
        batch_size=size,
        drop_last=a.get("drop_last", False),
        collate_fn=parts.collate,
    )
    valid = sets.get("eval") and torch.utils.data.DataLoader(
        sets["eval"], batch_size=a.get("eval_batch_size", size), collate_fn=parts.collate
    )
    return train, valid


def inject(rules, model, micro):
    for r in rules or []:
        if r["micro"] == micro:
            dict(model.named_parameters())[r["param"]].grad.view(-1)[0] = float(r["value"])


def evaluate(spec, rec, model, loader, **where):
    model.eval()
    names, logits, labels, losses = spec.get("metrics", ["accuracy"]), [], [], []
    for batch in loader:
        rec.order += batch.pop("idx").tolist()
        with torch.no_grad():
            out = model(**batch)
        losses.append(float(out["loss"]))
        logits.append(out["logits"]), labels.append(batch["labels"])
    result = parts.metrics(names, torch.cat(logits).float().numpy(), torch.cat(labels).numpy())
    rec.evaluation(
        **where, num_samples=len(torch.cat(labels)), metrics={**result, "mean_batch_loss": sum(losses) / len(losses)}
    )


def course(spec, folder):
    a, rec, sets = spec.get("args", {}), parts.Recorder(), parts.sets(spec, folder)
    model = opt = None
    try:
        model = parts.build(spec, folder)
        if a.get("seed", 42) is not None:
            torch.manual_seed(a.get("seed", 42))
        train, valid = loaders(a, sets)
        opt = optimizer(a, model)
        epochs, accum = a.get("num_epochs", 3), a.get("gradient_accumulation_steps", 1)
        sched = schedule(a, opt, a.get("num_training_steps") or epochs * len(train))
        amp = (
            (lambda: torch.autocast("cpu", torch.bfloat16))
            if a.get("mixed_precision") == "bf16"
            else contextlib.nullcontext
        )
        rec.start(model), rec.groups(model, opt)
        rec.where, before, updates, micro = "train", rec.mark(), 0, 0
        for epoch in range(epochs):
            model.train()
            for step, batch in enumerate(train):
                idx = batch.pop("idx")
                with amp():
                    loss = model(**batch)["loss"]
                loss = loss / accum if accum > 1 else loss
                loss.backward()
                micro += 1
                inject(a.get("inject"), model, micro)
                rec.micro(idx, loss.item())
                if (step + 1) % accum and step + 1 != len(train):
                    continue
                norm = None
                if a.get("clip_grad_norm") is not None:
                    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), a["clip_grad_norm"])
                if a.get("clip_grad_value") is not None:
                    torch.nn.utils.clip_grad_value_(model.parameters(), a["clip_grad_value"])
                lr = [g["lr"] for g in opt.param_groups]
                opt.step(), sched.step(), opt.zero_grad()
                updates += 1
                rec.update(updates, epoch + (step + 1) / len(train), norm, lr, model)
            if a.get("evaluate") == "epoch":
                evaluate(spec, rec, model, valid, step=updates, epoch=epoch + 1)
        if a.get("evaluate") == "end":
            evaluate(spec, rec, model, valid, step=updates, epoch=epochs)
        rec.phase("train", before)
    except Exception as e:  # the refusal is what there is to record
        rec.failed(e, folder)
    return rec.trace, parts.tensors(model, opt)


class Counter:
    """An object of the user's that goes into saved states."""

    n = 0

    def state_dict(self):
        return {"n": self.n}

    def load_state_dict(self, state):
        self.n = state["n"]


def accelerate_phase(spec, folder, sets, rec, phase, out, keep):
    a = {**spec.get("args", {}), **phase.get("args", {})}
    rec.where = "setup"
    AcceleratorState._reset_state(True), GradientState._reset_state()
    plugin = GradientAccumulationPlugin(
        **a.get("accumulation_plugin") or {"num_steps": a.get("gradient_accumulation_steps", 1)}
    )
    acc = Accelerator(
        cpu=True,
        mixed_precision=a.get("mixed_precision", "no"),
        gradient_accumulation_plugin=plugin,
        step_scheduler_with_optimizer=a.get("step_scheduler_with_optimizer", True),
        project_config=ProjectConfiguration(
            project_dir=out,
            automatic_checkpoint_naming=a.get("automatic_naming", False),
            total_limit=a.get("total_limit"),
        ),
        dataloader_config=DataLoaderConfiguration(
            use_seedable_sampler=a.get("use_seedable_sampler", False), data_seed=a.get("data_seed")
        ),
    )
    if a.get("scaler") is not None:  # there is none on a CPU; Accelerate's own code then runs as on a GPU
        acc.scaler = torch.amp.GradScaler("cpu", **a["scaler"])
    scaler = acc.scaler
    bare = keep["model"] = parts.build(spec, folder)
    if a.get("seed", 42) is not None:
        set_seed(a.get("seed", 42))
    train, valid = loaders(a, sets)
    model, opt, train, valid = acc.prepare(bare, optimizer(a, bare), train, valid)
    epochs = a.get("num_epochs", 3)
    total = a.get("num_training_steps") or epochs * len(train)
    sched = schedule(a, opt.optimizer, total)
    sched = acc.prepare(sched) if a.get("prepare_scheduler", True) else sched
    counter = Counter()
    if a.get("register_counter"):
        acc.register_for_checkpointing(counter)
    keep["optimizer"] = opt.optimizer
    rec.start(bare), rec.groups(bare, opt.optimizer)
    rec.where, start, skip, updates = "train", 0, 0, phase.get("resume_update", 0)
    if phase.get("resume"):
        acc.load_state(os.path.join(out, phase["resume"]))
        kind, number = os.path.basename(phase["resume"]).split("_")
        start, skip = (
            (int(number) + 1, 0)
            if kind == "epoch"
            else divmod(int(number) if kind == "step" else phase["resume_micro"], len(train))
        )
        skip = 0 if phase.get("ignore_data_skip") else skip
    micro = start * len(train) + skip

    def save(name):
        acc.save_state(None if a.get("automatic_naming") else os.path.join(out, name))
        rec.trace["checkpoints"]["written"].append(
            f"checkpoints/checkpoint_{acc.save_iteration - 1}" if a.get("automatic_naming") else name
        )

    for epoch in range(start, epochs):
        model.train()
        seen = skip if epoch == start else 0
        active = skip_first_batches(train, skip) if seen else train
        if a.get("set_epoch"):
            active.set_epoch(epoch)
        for batch in active:
            idx = batch.pop("idx")
            with acc.accumulate(model):
                loss = model(**batch)["loss"]
                rec.micro(idx, (loss / acc.gradient_accumulation_steps).item())
                scale, norm = scaler and scaler.get_scale(), None
                acc.backward(loss)
                micro, seen, counter.n = micro + 1, seen + 1, counter.n + len(idx)
                inject(a.get("inject"), bare, micro)
                if acc.sync_gradients:
                    clips = a.get("clip_grad_norm") is not None, a.get("clip_grad_value") is not None
                    if scaler and any(clips):
                        scaler.unscale_(opt.optimizer)
                    norm = acc.clip_grad_norm_(model.parameters(), a["clip_grad_norm"]) if clips[0] else None
                    if clips[1]:
                        acc.clip_grad_value_(model.parameters(), a["clip_grad_value"])
                lr = [g["lr"] for g in opt.param_groups]
                opt.step()
                skipped = acc.optimizer_step_was_skipped
                sched.step()
                opt.zero_grad()
                if acc.sync_gradients:
                    updates += 1
                    more = {"lr_after": [parts.hexed(g["lr"]) for g in opt.param_groups]}
                    if scaler:
                        more |= {
                            "scale": parts.hexed(scale),
                            "scale_after": parts.hexed(scaler.get_scale()),
                            "growth_tracker": int(scaler._get_growth_tracker()),
                        }
                    if a.get("register_counter"):
                        more["counter"] = counter.n
                    rec.update(updates, epoch + seen / len(train), norm, lr, bare, skipped, **more)
            if isinstance(a.get("checkpointing"), int) and micro % a["checkpointing"] == 0:
                save(f"step_{micro}")
            if acc.sync_gradients and phase.get("stop_after_update") == updates:
                rec.window = []
                return {"killed_after_update": updates}
            if a.get("max_train_steps") and updates >= a["max_train_steps"]:
                break
        if a.get("evaluate") == "epoch":
            evaluate(spec, rec, model, valid, step=updates, epoch=epoch + 1)
        if a.get("checkpointing") == "epoch":
            save(f"epoch_{epoch}")
        if a.get("max_train_steps") and updates >= a["max_train_steps"]:
            break
    return {"updates": updates, "scheduler_total": total}


def accelerate(spec, folder):
    rec, sets, keep = parts.Recorder(), parts.sets(spec, folder), {}
    with tempfile.TemporaryDirectory() as out:
        try:
            for phase in spec.get("phases", [{"do": "train"}]):
                before = rec.mark()
                rec.trace["train_output"] = accelerate_phase(spec, folder, sets, rec, phase, out, keep)
                rec.phase("train", before)
        except Exception as e:  # the refusal is what there is to record
            rec.failed(e, out)
        left = [
            f"checkpoints/{f}"
            for f in (os.listdir(f"{out}/checkpoints") if os.path.isdir(f"{out}/checkpoints") else [])
        ]
        left += [f for f in os.listdir(out) if f.startswith(("epoch_", "step_"))]
    rec.trace["checkpoints"]["after"] = sorted(left, key=lambda s: int(s.split("_")[-1]))
    return rec.trace, parts.tensors(keep.get("model"), keep.get("optimizer"))
