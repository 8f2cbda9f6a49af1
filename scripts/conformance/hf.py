"""transformers.Trainer, watched from outside."""

import json
import os
import tempfile

import torch
from safetensors.torch import load_file
from transformers import EarlyStoppingCallback, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

import parts


class Watch(TrainerCallback):
    """Records every event, and dies before an update if asked to."""

    trainer = None  # set when it exists: the first event comes before

    def __init__(self, rec, stop_after):
        self.rec, self.stop_after = rec, stop_after

    def see(self, event, args, state, optimizer):
        self.rec.trace["events"].append([event, state.global_step, state.epoch])
        t = self.trainer
        if event == "on_pre_optimizer_step":
            self.rec.groups(t.model, optimizer)
            self.rates = [g["lr"] for g in optimizer.param_groups]
        elif event == "on_step_end":
            more = {} if t.items is None else {"num_items": int(t.items)}
            if args.include_num_input_tokens_seen != "no":
                more["num_input_tokens_seen"] = state.num_input_tokens_seen
            self.rec.update(
                state.global_step,
                state.epoch,
                t.norm,
                self.rates,
                t.model,
                bool(t.accelerator.optimizer_step_was_skipped),
                **more,
            )
        elif event == "on_save":
            self.rec.trace["checkpoints"]["written"].append(f"checkpoint-{state.global_step}")
        elif event == "on_step_begin" and self.stop_after is not None and state.global_step >= self.stop_after:
            raise parts.Killed


for name in [n for n in dir(TrainerCallback) if n.startswith("on_")]:
    setattr(
        Watch,
        name,
        lambda self, args, state, control, optimizer=None, event=name, **_: self.see(event, args, state, optimizer),
    )


def callback(rule):
    if rule["kind"] == "early_stopping":
        return EarlyStoppingCallback(rule.get("patience", 1), rule.get("threshold", 0.0))
    made = TrainerCallback()

    def act(args, state, control, **_):
        if state.global_step == rule["step"]:
            for flag in rule["set"]:
                setattr(control, flag, rule.get("to", True))
        return control

    setattr(made, rule["at"], act)
    return made


def per_item(outputs, labels, num_items_in_batch=None):
    if num_items_in_batch is None:
        return torch.nn.functional.cross_entropy(outputs["logits"], labels)
    return torch.nn.functional.cross_entropy(outputs["logits"], labels, reduction="sum") / num_items_in_batch


class Watched(Trainer):
    rec = norm = items = None

    def _set_signature_columns_if_needed(self):
        super()._set_signature_columns_if_needed()
        if "idx" not in self._signature_columns:
            self._signature_columns.append("idx")

    def training_step(self, model, inputs, num_items_in_batch=None):
        idx = inputs.pop("idx")
        loss = super().training_step(model, inputs, num_items_in_batch)
        self.items = num_items_in_batch
        self.rec.micro(idx, loss.item())
        return loss

    def _get_grad_norm(self, model, grad_norm=None):
        self.norm = super()._get_grad_norm(model, grad_norm)
        return self.norm

    def prediction_step(self, model, inputs, *args, **kwargs):
        self.rec.order += inputs.pop("idx").tolist()
        return super().prediction_step(model, inputs, *args, **kwargs)

    def evaluation_loop(
        self, dataloader, description, prediction_loss_only=None, ignore_keys=None, metric_key_prefix="eval"
    ):
        out = super().evaluation_loop(dataloader, description, prediction_loss_only, ignore_keys, metric_key_prefix)
        self.rec.evaluation(
            step=self.state.global_step,
            epoch=self.state.epoch,
            prefix=metric_key_prefix,
            num_samples=out.num_samples,
            metrics=parts.without_clock(out.metrics),
        )
        return out


def make(spec, folder, sets, rec, phase, output_dir):
    rec.where = "arguments"
    args = TrainingArguments(
        output_dir=output_dir,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        **{**spec.get("args", {}), **phase.get("args", {})},
    )
    rec.where = "trainer"
    watch, names, own = (
        Watch(rec, phase.get("stop_after_update")),
        spec.get("metrics"),
        spec.get("init") == "model_init",
    )
    several = spec["data"].get("eval_sets")
    Watched.rec = rec
    t = Watched(
        model=None if own else parts.build(spec, folder),
        model_init=(lambda: parts.build(spec, folder)) if own else None,
        args=args,
        data_collator=parts.collate,
        train_dataset=sets.get("train"),
        eval_dataset={n: sets[f"eval_{n}"] for n in several} if several else sets.get("eval"),
        compute_metrics=(lambda p: parts.metrics(names, p.predictions, p.label_ids)) if names else None,
        compute_loss_func=per_item if spec.get("loss_func") else None,
        callbacks=[watch] + [callback(c) for c in spec.get("callbacks", [])],
    )
    rec.start(t.model)
    t.remove_callback(PrinterCallback)
    watch.trainer = t
    return t


def files(output_dir, names):
    """What the checkpoints hold that were left."""
    after = sorted(os.listdir(output_dir), key=lambda s: int(s.split("-")[-1]))
    out = {"after": after, "weights_sha256": {}, "state": {}}
    for name in after:
        held = load_file(f"{output_dir}/{name}/model.safetensors")
        out["weights_sha256"][name] = parts.digest({n: held[n] for n in names})
        state = json.load(open(f"{output_dir}/{name}/trainer_state.json"))
        state.pop("log_history"), state.pop("stateful_callbacks")
        state["best_model_checkpoint"] = state["best_model_checkpoint"] and os.path.basename(
            state["best_model_checkpoint"]
        )
        out["state"][name] = state
    return out


def record(spec, folder):
    rec, sets, t, final = parts.Recorder(), parts.sets(spec, folder), None, {}
    with tempfile.TemporaryDirectory() as output_dir:
        try:
            for phase in spec.get("phases", [{"do": "train"}]):
                before = rec.mark()
                if t is None or phase["do"] == "train" and not phase.get("same_trainer"):
                    t = make(spec, folder, sets, rec, phase, output_dir)
                rec.where = phase["do"]
                if phase["do"] == "train":
                    resume = phase.get("resume")
                    try:
                        out = t.train(
                            resume_from_checkpoint=os.path.join(output_dir, resume)
                            if isinstance(resume, str)
                            else resume
                        )
                        rec.trace["train_output"] = {
                            "global_step": out.global_step,
                            "training_loss": parts.hexed(out.training_loss),
                            "metrics": parts.without_clock(out.metrics),
                        }
                    except parts.Killed:
                        rec.trace["train_output"], rec.window = {"killed_before_update": t.state.global_step + 1}, []
                elif phase["do"] == "evaluate":
                    t.evaluate()
                else:
                    out = t.predict(sets[phase.get("on", "eval")], metric_key_prefix=phase.get("prefix", "test"))
                    final["predict.predictions"] = torch.from_numpy(out.predictions)
                    if out.label_ids is not None:
                        final["predict.label_ids"] = torch.from_numpy(out.label_ids)
                rec.phase(phase["do"], before)
        except Exception as e:  # the refusal is what there is to record
            rec.failed(e, output_dir)
        if t is not None:
            rec.trace["checkpoints"].update(files(output_dir, [n for n, _ in t.model.named_parameters()]))
    if t is not None:
        s = t.state
        rec.trace["log_history"] = [parts.without_clock(row) for row in s.log_history]
        rec.trace["best"] = {
            "metric": s.best_metric,
            "step": s.best_global_step,
            "checkpoint": s.best_model_checkpoint and os.path.basename(s.best_model_checkpoint),
        }
        final.update(parts.tensors(t.model, t.optimizer))
    return rec.trace, final
