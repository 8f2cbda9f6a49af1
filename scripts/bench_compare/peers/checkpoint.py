"""Workload checkpoint: save and load a BERT-base-sized training state (weights and AdamW state)."""

import contextlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import common as C

p = C.parser("checkpoint", ["raw", "raw_tuned", "safetensors", "hf"])
p.add_argument("--dir", help="folder to write under; default: the system's temporary folder")
p.add_argument("--rounds", type=int)
p.add_argument("--fsync", action="store_true", help="fsync every file before the save counts as done")
p.add_argument("--drop-cache", action="store_true", help="ask the kernel to forget the files' pages before loading")
a = p.parse_args()
C.quiet()
torch = C.set_threads(a.threads)
gpu = a.device.startswith("cuda")
if gpu and not torch.cuda.is_available():
    C.skip("checkpoint", a.impl, "no CUDA device")
spec = C.spec_for("bert_base", tiny=a.tiny)
rounds = a.rounds or (1 if a.tiny else 3)


def state(seed):
    """Model and AdamW, with real (non-zero) moments after one step on made-up gradients."""
    m = C.build_model(torch, spec if seed is None else C.dataclasses.replace(spec, seed=seed)).to(a.device)
    o = torch.optim.AdamW(m.parameters(), lr=5e-5, weight_decay=0.0, fused=True)
    for q in m.parameters():
        q.grad = q.detach() * 0.01
    o.step()
    o.zero_grad()
    s = torch.optim.lr_scheduler.LambdaLR(o, lambda k: 1.0)
    return m, o, s


def checksum(m, o):
    """Sum of |weights| + sum of |exp_avg| in float64."""
    t = sum(float(q.detach().double().abs().sum()) for q in m.parameters())
    return t + sum(float(s["exp_avg"].double().abs().sum()) for s in o.state.values())


def done(folder):
    if a.fsync:
        for f in Path(folder).rglob("*"):
            if f.is_file():
                fd = os.open(f, os.O_RDONLY)
                os.fsync(fd)
                os.close(fd)


def forget(folder):
    if a.drop_cache:
        for f in Path(folder).rglob("*"):
            if f.is_file():
                fd = os.open(f, os.O_RDONLY)
                os.fsync(fd)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


m1, o1, s1 = state(None)
m2, o2, s2 = state(99)  # loaded into: other weights, so that the check says something

if a.impl in ("raw", "raw_tuned"):

    def save(d):
        torch.save(
            {
                "model": m1.state_dict(),
                "optimizer": o1.state_dict(),
                "scheduler": s1.state_dict(),
                "step": 1,
                "rng": torch.get_rng_state(),
            },
            d / "checkpoint.pt",
        )

    def load(d):
        k = {"mmap": True} if a.impl == "raw_tuned" else {}
        c = torch.load(d / "checkpoint.pt", weights_only=True, map_location="cpu", **k)
        m2.load_state_dict(c["model"])
        o2.load_state_dict(c["optimizer"])
        s2.load_state_dict(c["scheduler"])
        torch.set_rng_state(c["rng"])
elif a.impl == "safetensors":
    from safetensors import safe_open
    from safetensors.torch import save_file

    names = {q: n for n, q in m1.named_parameters()}

    def save(d):
        save_file(m1.state_dict(), d / "model.safetensors")
        t = {f"{names[q]}.{k}": v for q, st in o1.state.items() for k, v in st.items()}
        save_file(t, d / "optimizer.safetensors", metadata={"step": "1"})

    def load(d):
        with torch.no_grad():
            own = m2.state_dict()
            with safe_open(d / "model.safetensors", "pt") as f:
                for k in f.keys():
                    own[k].copy_(f.get_tensor(k))
            with safe_open(d / "optimizer.safetensors", "pt") as f:
                for n, q in m2.named_parameters():
                    for k, v in o2.state[q].items():
                        v.copy_(f.get_tensor(f"{n}.{k}"))
else:
    from transformers import Trainer, TrainingArguments

    tmp = tempfile.TemporaryDirectory()

    class Empty:
        def __len__(self):
            return 8

        def __getitem__(self, i):
            return {}

    def trainer(m, o, s):
        t = Trainer(
            model=m,
            args=TrainingArguments(output_dir=tmp.name, report_to=[], use_cpu=not gpu),
            train_dataset=Empty(),
            optimizers=(o, s),
        )
        t.state.global_step = 1
        t.model_wrapped = m
        return t

    with contextlib.redirect_stdout(sys.stderr):
        t1, t2 = trainer(m1, o1, s1), trainer(m2, o2, s2)

    def save(d):
        t1.args.output_dir = str(d)
        t1._save_checkpoint(m1, trial=None)

    def load(d):
        c = str(d / "checkpoint-1")
        t2._load_from_checkpoint(c)
        t2._load_optimizer_and_scheduler(c)
        t2._load_rng_state(c)


want = checksum(m1, o1)
other = checksum(m2, o2)
first = time.time() - C.PROCESS_START
saves, loads, size = [], [], 0
for r in range(rounds + 1):  # the first round is the warm-up
    d = Path(tempfile.mkdtemp(dir=a.dir))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            if gpu:
                torch.cuda.synchronize()
            t0 = time.perf_counter()
            save(d)
            done(d)
            t1_ = time.perf_counter()
            forget(d)
            t2_ = time.perf_counter()
            load(d)
            if gpu:
                torch.cuda.synchronize()
            t3 = time.perf_counter()
        size = sum(f.stat().st_size for f in d.rglob("*") if f.is_file())
    finally:
        shutil.rmtree(d)
    if r:
        saves.append(t1_ - t0)
        loads.append(t3 - t2_)
got = checksum(m2, o2)
if not abs(got - want) <= 1e-9 * want:
    raise SystemExit(f"checkpoint/{a.impl}: loaded state differs: {got} against {want} (before the load {other})")
params = sum(q.numel() for q in m1.parameters())
# Now and then a round waits for a disk that writes what the rounds before have left.
save_s, load_s = (sorted(times)[len(times) // 2] for times in (saves, loads))
C.result(
    "checkpoint",
    a.impl,
    rounds,
    rounds * (save_s + load_s),
    rounds,
    first,
    round(want, 3),
    round(got, 3),
    torch.get_num_threads(),
    save_s=round(save_s, 4),
    load_s=round(load_s, 4),
    mb=round(size / 2**20, 1),
    params=params,
    fsync=a.fsync,
    drop_cache=a.drop_cache,
    device=a.device,
)
