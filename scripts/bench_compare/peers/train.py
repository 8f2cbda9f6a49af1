"""The training workloads of internal/bench in Python: raw, raw_tuned, compile, accelerate, hf, hf_tuned, hezar, trl."""

import contextlib
import os
import shutil
import sys
import tempfile

import common as C

IMPLS = ["raw", "raw_tuned", "compile", "accelerate", "hf", "hf_tuned", "hezar", "trl"]


def main():
    p = C.train_parser("mlp", IMPLS)
    a = p.parse_args()
    spec = C.spec_for(
        a.workload,
        a.device,
        a.tiny,
        batch=a.batch,
        steps=a.steps,
        warmup=a.warmup,
        precision=a.precision,
        dropout=a.dropout,
    )
    C.quiet()
    torch = C.set_threads(a.threads)
    if a.device.startswith("cuda") and not torch.cuda.is_available():
        C.skip(a.workload, a.impl, "no CUDA device")
    {
        "raw": raw,
        "raw_tuned": raw_tuned,
        "compile": raw_tuned,
        "accelerate": accelerate,
        "hf": hf,
        "hf_tuned": hf,
        "hezar": hezar,
        "trl": trl,
    }[a.impl](torch, spec, a)


def model_loss(model, batch):
    return model(**batch).loss


def loss_fn(torch, spec, tuned=False):
    """(model, batch) -> loss, for the plain loops."""
    if spec.kind == "mlp":
        return lambda m, b: torch.nn.functional.cross_entropy(m(b[0]), b[1])
    if spec.kind == "crnn":
        ctc = (C.ctc_tuned if tuned else C.ctc)(torch)
        return lambda m, b: ctc(m(b[0]), b[1])
    return model_loss


def autocast(torch, spec, device):
    if spec.precision == "bf16":
        return lambda: torch.autocast(device.split(":")[0], dtype=torch.bfloat16)
    return contextlib.nullcontext


def need(spec):
    """Micro-batches for warm-up and measured updates."""
    return (spec.warmup + spec.steps) * spec.accum


def make_loader(torch, spec, collate=None, as_dict=False, extra=0, data=None):
    ds = data or C.Items(torch, spec, as_dict)
    idx = C.order(torch, len(ds), spec.batch, need(spec) + extra)
    if spec.kind == "bert" and collate is None:
        collate = C.bert_collate(torch, spec.fixed_len)
    if spec.kind == "llama" and collate is None:
        collate = C.llama_collate(torch)
    return torch.utils.data.DataLoader(ds, batch_size=spec.batch, sampler=idx, collate_fn=collate)


def to_device(batch, device):
    if isinstance(batch, dict):
        return {k: v.to(device) for k, v in batch.items()}
    return [v.to(device) for v in batch]


def finish_log(spec, n, losses, norm, lr, per_epoch):
    C.log_line(
        {
            "loss": round(losses / spec.log_every, 4),
            "grad_norm": float(norm),
            "learning_rate": lr,
            "epoch": round(n * spec.accum / per_epoch, 4),
            "step": n,
        }
    )


# ------------------------------------------------------------------------------------------------ plain PyTorch
def raw(torch, spec, a):
    """The loop of the tutorials: DataLoader, default AdamW, loss.item() every update."""
    model = C.build_model(torch, spec, a.init).to(a.device)
    opt = torch.optim.AdamW(model.parameters(), lr=spec.lr, weight_decay=0.0)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, C.lr_factor(spec)) if spec.linear else None
    loader, loss_of, cast = make_loader(torch, spec), loss_fn(torch, spec), autocast(torch, spec, a.device)
    per_epoch = len(loader.dataset) // spec.batch
    rec = C.Recorder(spec, a, torch)
    model.train()
    rec.start()
    part, since_log, n, norm = 0.0, 0.0, 0, 0.0
    for i, batch in enumerate(loader):
        batch = to_device(batch, a.device)
        with cast():
            loss = loss_of(model, batch)
        if spec.accum > 1:
            loss = loss / spec.accum
        loss.backward()
        part += loss.item()
        if (i + 1) % spec.accum:
            continue
        if spec.clip:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), spec.clip)
        opt.step()
        lr = opt.param_groups[0]["lr"]
        if sched:
            sched.step()
        opt.zero_grad()
        n += 1
        since_log += part
        if spec.log_every and n % spec.log_every == 0:
            finish_log(spec, n, since_log, norm, lr, per_epoch)
            since_log = 0.0
        rec.update(part)
        part = 0.0
    rec.finish()


def fast_batches(torch, spec, device):
    """What a careful user writes instead of a DataLoader when the data fit in memory: one index_select a batch."""
    torch.empty(
        (), dtype=torch.int64
    ).random_()  # a DataLoader draws its base seed here: keeps the dropout stream the same
    if spec.kind == "bert":
        rows = C.mrpc("train")
        lens = [len(r[0]) for r in rows]
        full = C.bert_collate(torch, spec.fixed_len or max(lens))(
            [{"input_ids": r[0], "token_type_ids": r[1], "labels": r[2]} for r in rows]
        )
        full = {k: v.to(device) for k, v in full.items()}
        idx = C.order(torch, len(rows), spec.batch, need(spec))
        for k in range(0, len(idx), spec.batch):
            sel = idx[k : k + spec.batch]
            n = spec.fixed_len or max(lens[i] for i in sel)
            t = torch.tensor(sel).to(device, non_blocking=True)
            yield {key: (v[t] if key == "labels" else v[t, :n]) for key, v in full.items()}
        return
    if spec.kind == "llama":
        rows = C.Items(torch, spec, True)
        lens = [len(r) for r in rows.rows]
        full = {
            k: v.to(device) for k, v in C.llama_collate(torch)(list(map(rows.__getitem__, range(len(rows))))).items()
        }
        idx = C.order(torch, len(rows), spec.batch, need(spec))
        for k in range(0, len(idx), spec.batch):
            sel = idx[k : k + spec.batch]
            t = torch.tensor(sel).to(device, non_blocking=True)
            yield {key: v[t, : max(lens[i] for i in sel)] for key, v in full.items()}
        return
    x, y = (C.mnist_float if spec.kind == "mlp" else C.plates_float)(torch)
    x, y = x.to(device), y.to(device)
    idx = torch.tensor(C.order(torch, len(x), spec.batch, need(spec))).to(device)
    for t in idx.split(spec.batch):
        b = x.index_select(0, t)
        if spec.kind == "crnn":
            b = b.to(memory_format=torch.channels_last)
        yield b, y.index_select(0, t)


def raw_tuned(torch, spec, a):
    """Fused AdamW, channels_last, no per-step read-back, no DataLoader; TF32 on a GPU. compile: torch.compile besides."""
    if a.device.startswith("cuda"):
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = spec.kind == "crnn"
    model = C.build_model(torch, spec, a.init).to(a.device)
    if spec.kind == "crnn":
        model = model.to(memory_format=torch.channels_last)
        for m in (model.rnn1, model.rnn2):
            m.flatten_parameters()
    opt = torch.optim.AdamW(model.parameters(), lr=spec.lr, weight_decay=0.0, fused=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, C.lr_factor(spec)) if spec.linear else None
    params = [p for p in model.parameters()]
    run = model
    if a.impl == "compile":
        if not (shutil.which("g++") or shutil.which("clang++")):
            C.skip(a.workload, a.impl, "torch.compile needs a C++ compiler")
        torch._inductor.config.fallback_random = True  # the dropout masks of the others
        run = torch.compile(model)
    loss_of, cast = loss_fn(torch, spec, tuned=True), autocast(torch, spec, a.device)
    batches = fast_batches(torch, spec, a.device)
    per_epoch = {"mlp": 6000, "crnn": 800, "bert": 3668, "llama": 2000}[spec.kind] // spec.batch
    rec = C.Recorder(spec, a, torch)
    model.train()
    rec.start()
    since_log, n, norm = None, 0, 0.0
    while True:
        part = None
        for _ in range(spec.accum):
            batch = next(batches, None)
            if batch is None:
                break
            with cast():
                loss = loss_of(run, batch)
            if spec.accum > 1:
                loss = loss / spec.accum
            loss.backward()
            part = loss.detach() if part is None else part + loss.detach()
        if part is None:
            break
        if spec.clip:
            norm = torch.nn.utils.clip_grad_norm_(params, spec.clip, foreach=True)
        opt.step()
        lr = opt.param_groups[0]["lr"]
        if sched:
            sched.step()
        opt.zero_grad(set_to_none=True)
        n += 1
        if spec.log_every:
            since_log = part if since_log is None else since_log + part
            if n % spec.log_every == 0:
                finish_log(spec, n, since_log.item(), norm, lr, per_epoch)
                since_log = None
        rec.update(part)
    rec.finish()


# ------------------------------------------------------------------------------------------------ Accelerate
def accelerate(torch, spec, a):
    """The loop of Accelerate's own examples."""
    from accelerate import Accelerator

    acc = Accelerator(
        gradient_accumulation_steps=spec.accum,
        cpu=a.device == "cpu",
        mixed_precision="bf16" if spec.precision == "bf16" else None,
    )
    model = C.build_model(torch, spec, a.init)
    opt = torch.optim.AdamW(model.parameters(), lr=spec.lr, weight_decay=0.0)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, C.lr_factor(spec))
    loader = make_loader(torch, spec)
    per_epoch = len(loader.dataset) // spec.batch
    model, opt, loader, sched = acc.prepare(model, opt, loader, sched)
    loss_of = loss_fn(torch, spec)
    rec = C.Recorder(spec, a, torch)
    model.train()
    rec.start()
    part, since_log, n, norm = 0.0, 0.0, 0, 0.0
    for batch in loader:
        with acc.accumulate(model):
            loss = loss_of(model, batch)
            acc.backward(loss)
            if spec.clip and acc.sync_gradients:
                norm = acc.clip_grad_norm_(model.parameters(), spec.clip)
            opt.step()
            lr = opt.param_groups[0]["lr"]
            sched.step()
            opt.zero_grad()
        part = part + loss.detach() / spec.accum
        if not acc.sync_gradients:
            continue
        n += 1
        if spec.log_every:
            since_log = since_log + part
            if n % spec.log_every == 0:
                finish_log(spec, n, since_log.item(), norm, lr, per_epoch)
                since_log = 0.0
        rec.update(part)
        part = 0.0
    rec.finish()


# ------------------------------------------------------------------------------------------------ Hugging Face Trainer
def wrap_for_hf(torch, spec, model):
    """A module whose forward takes the batch's names and returns a dict with the loss, as the Trainer wants."""
    if spec.kind in ("bert", "llama"):
        return model
    crit = torch.nn.functional.cross_entropy if spec.kind == "mlp" else C.ctc(torch)

    class Wrapped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, pixel_values, labels=None):
            logits = self.model(pixel_values)
            return {"loss": crit(logits, labels), "logits": logits}

    return Wrapped()


def timed(rec, idx):
    """A callback that reports each update to rec, and a mixin for transformers' Trainer that takes the samples idx in
    turn and adds up the losses of an update. The callback needs the trainer's part.
    """
    import transformers

    class Timed:
        part = 0.0

        def _get_train_sampler(self, *_, **__):
            return idx

        def training_step(self, *args, **kw):
            loss = super().training_step(*args, **kw)
            self.part = self.part + loss
            return loss

    class Timer(transformers.TrainerCallback):
        trainer = None

        def on_train_begin(self, *_, **__):
            rec.start()

        def on_step_end(self, *_, **__):
            rec.update(self.trainer.part)
            self.trainer.part = 0.0

    return Timer(), Timed


def hf(torch, spec, a):
    """transformers.Trainer with its defaults; only reporting, checkpoints and the sample order are set.

    hf_tuned: progress bar off, NaN filter off, no column filter, no pinning on the CPU, TF32 and worker processes on a
    GPU.
    """
    import transformers
    from transformers import Trainer, TrainingArguments

    tuned, gpu = a.impl == "hf_tuned", a.device.startswith("cuda")
    rec = C.Recorder(spec, a, torch)
    model = wrap_for_hf(torch, spec, C.build_model(torch, spec, a.init))
    data = C.Items(torch, spec, as_dict=True)
    idx = C.order(torch, len(data), spec.batch, need(spec))

    timer, Timed = timed(rec, idx)

    class Fixed(Timed, Trainer):
        pass

    with tempfile.TemporaryDirectory() as out:
        kw = dict(
            output_dir=out,
            per_device_train_batch_size=spec.batch,
            gradient_accumulation_steps=spec.accum,
            learning_rate=spec.lr,
            lr_scheduler_type="linear" if spec.linear else "constant",
            max_grad_norm=spec.clip,
            weight_decay=0.0,
            max_steps=spec.warmup + spec.steps,
            save_strategy="no",
            report_to=[],
            use_cpu=not gpu,
            seed=spec.seed + 1,
            bf16=spec.precision == "bf16",
        )
        if spec.log_every:
            kw["logging_steps"] = spec.log_every
        if tuned:
            kw.update(
                disable_tqdm=True, logging_nan_inf_filter=False, remove_unused_columns=False, dataloader_pin_memory=gpu
            )
            if gpu:
                kw.update(tf32=True)
                if spec.kind in ("bert", "llama"):
                    kw.update(dataloader_num_workers=2, dataloader_persistent_workers=True)
        collate = C.hf_collate(spec.fixed_len) if spec.kind == "bert" else None
        if spec.kind == "llama":
            from transformers import DataCollatorForLanguageModeling

            collate = DataCollatorForLanguageModeling(C.make_hf_tokenizer(), mlm=False)
        # the Trainer's log records go to stdout; keep stdout for the result line
        with contextlib.redirect_stdout(sys.stderr):
            trainer = Fixed(
                model=model,
                args=TrainingArguments(**kw),
                train_dataset=data,
                data_collator=collate,
                callbacks=[timer],
            )
            timer.trainer = trainer
            torch.manual_seed(spec.seed + 1)
            trainer.train()
    rec.finish(transformers=transformers.__version__)


# ------------------------------------------------------------------------------------------------ Hezar
def hezar(torch, spec, a):
    """Hezar's own CRNN and Trainer with their defaults, but AdamW, no evaluation and no checkpoints."""
    os.environ.setdefault("HEZAR_CACHE_DIR", tempfile.gettempdir())
    with contextlib.redirect_stdout(sys.stderr):
        from hezar.models import CRNNImage2Text, CRNNImage2TextConfig
        from hezar.preprocessors import ImageProcessor, ImageProcessorConfig
        from hezar.trainer import Trainer, TrainerConfig

        model = CRNNImage2Text(CRNNImage2TextConfig(id2label=dict(enumerate(C.plate_charset())), map2seq_in_dim=1024))
        model.load_state_dict(C.build_model(torch, spec, a.init).state_dict())
        data = C.Items(torch, spec, as_dict=True)
        idx = C.order(torch, len(data), spec.batch, need(spec) + 1)

        class InOrder:  # Hezar's sampler walks the data in order where shuffling is off
            def __len__(self):
                return len(idx)

            def __getitem__(self, i):
                return data[idx[i]]

        rec = C.Recorder(spec, a, torch)

        class Timed(Trainer):
            last = None

            def training_step(self, batch):
                # an update ends where the next one begins: reading the loss and the progress bar belong to it
                if self.last is not None:
                    rec.update(self.last)
                out = super().training_step(batch)
                self.last = out["loss"]
                return out

        with tempfile.TemporaryDirectory() as out:
            config = TrainerConfig(
                output_dir=out,
                task="image2text",
                num_epochs=1,
                batch_size=spec.batch,
                optimizer="adamw",
                learning_rate=spec.lr,
                dataloader_shuffle=False,
                do_evaluate=False,
                save_enabled=False,
                save_steps=10**9,
                use_cpu=a.device == "cpu",
                seed=spec.seed + 1,
                mixed_precision="bf16" if spec.precision == "bf16" else None,
            )
            trainer = Timed(model, config, InOrder(), preprocessor=ImageProcessor(ImageProcessorConfig()))
            rec.start()
            trainer.train()
    rec.finish()


# ------------------------------------------------------------------------------------------------ TRL
def trl(torch, spec, a):
    """SFTTrainer, DPOTrainer or GRPOTrainer with their defaults, but in the same precision and without gradient
    checkpointing; texts are tokens already.
    """
    import datasets
    import trl

    datasets.disable_progress_bars()
    rec = C.Recorder(spec, a, torch)
    model = C.build_model(torch, spec, a.init)
    tokenizer = C.make_hf_tokenizer()
    tokenizer.eos_token = "[SEP]"
    texts = C.articles()
    end = [C.END]
    timer, Timed = timed(rec, C.order(torch, len(texts), spec.batch, need(spec)))

    class SFT(Timed, trl.SFTTrainer):
        pass

    class DPO(Timed, trl.DPOTrainer):
        def _prepare_dataset(self, dataset, *_):
            return dataset

    class GRPO(trl.GRPOTrainer):
        part = 0.0

        def _tokenize_prompts(self, prompts):
            return [list(map(int, p.split())) for p in prompts], None, {}

    def even(completion_ids, **_):
        rewards = [sum(1 - i % 2 for i in ids) / len(ids) for ids in completion_ids]
        trainer.part = sum(rewards) / len(rewards)
        return rewards

    settings, more = {}, {}
    if spec.name == "sft":
        cls, config, rows = SFT, trl.SFTConfig, [{"input_ids": t + end} for t in texts]
    elif spec.name == "dpo":
        cls, config, more = DPO, trl.DPOConfig, {"ref_model": C.build_model(torch, spec, a.init)}
        rows = [
            {"prompt_ids": t[:16], "chosen_ids": t[16:64] + end, "rejected_ids": other[16:64] + end}
            for t, other in zip(texts, texts[1:] + texts[:1])
        ]
    else:
        cls, config, more = GRPO, trl.GRPOConfig, {"reward_funcs": even}
        rows = [{"prompt": " ".join(map(str, t[: 8 + i % 8]))} for i, t in enumerate(texts)]
        rows = [rows[i] for i in C.order(torch, len(rows), spec.batch // 8, need(spec))]
        settings = dict(num_generations=8, max_completion_length=32, shuffle_dataset=False)
    with tempfile.TemporaryDirectory() as out, contextlib.redirect_stdout(sys.stderr):
        trainer = cls(
            model=model,
            args=config(
                output_dir=out,
                per_device_train_batch_size=spec.batch,
                learning_rate=spec.lr,
                lr_scheduler_type="linear",
                max_grad_norm=spec.clip,
                max_steps=spec.warmup + spec.steps,
                save_strategy="no",
                report_to=[],
                use_cpu=not a.device.startswith("cuda"),
                seed=spec.seed + 1,
                bf16=spec.precision == "bf16",
                gradient_checkpointing=False,
                **settings,
            ),
            train_dataset=datasets.Dataset.from_list(rows),
            processing_class=tokenizer,
            callbacks=[timer],
            **more,
        )
        timer.trainer = trainer
        torch.manual_seed(spec.seed + 1)
        trainer.train()
    rec.finish()


if __name__ == "__main__":
    main()
