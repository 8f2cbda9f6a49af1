#!/usr/bin/env python3
"""Measures what could speed up training on a GPU, in Python on the same libtorch. Prints one JSON line per finding.

    python3 levers.py env roofs sync gemm fp8 sdpa ctc bert crnn mlp    # each about a minute on an H200

Nothing here is gotrainer. It shows what CUDA graphs, packed texts, one product for Q, K and V, FP8, channels_last and
each attention kernel are worth before anybody writes them in Go. --dry runs tiny sizes on the CPU, to see that
everything works.
"""

import argparse, contextlib, json, math, os, subprocess, sys, time

ap = argparse.ArgumentParser()
ap.add_argument("what", nargs="+")
ap.add_argument("--dry", action="store_true")
A = ap.parse_args()
import torch
import torch.nn.functional as F

DEV = "cpu" if A.dry else "cuda"
aten = torch.ops.aten


def say(name, **kw):
    print(json.dumps({"lever": name, **kw}, default=str), flush=True)


def sync():
    if DEV == "cuda":
        torch.cuda.synchronize()


def timed(f, n=30, warm=5):
    """Median ms of a call; device time by events."""
    n, warm = (2, 1) if A.dry else (n, warm)
    for _ in range(warm):
        f()
    sync()
    ts = []
    for _ in range(n):
        if DEV == "cuda":
            a, b = torch.cuda.Event(True), torch.cuda.Event(True)
            a.record()
            f()
            b.record()
            b.synchronize()
            ts.append(a.elapsed_time(b))
        else:
            t = time.perf_counter()
            f()
            ts.append(1e3 * (time.perf_counter() - t))
    return sorted(ts)[len(ts) // 2]


def wall(f, n=50, warm=10):
    """Mean ms of a call when calls follow each other, as in a loop (host and device together)."""
    n, warm = (2, 1) if A.dry else (n, warm)
    for _ in range(warm):
        f()
    sync()
    t = time.perf_counter()
    for _ in range(n):
        f()
    sync()
    return 1e3 * (time.perf_counter() - t) / n


def host(f, n=30, warm=5):
    """Mean ms until a call returns to the host, device idle at the start of each: the launch time alone."""
    n, warm = (2, 1) if A.dry else (n, warm)
    for _ in range(warm):
        f()
    s = 0.0
    for _ in range(n):
        sync()
        t = time.perf_counter()
        f()
        s += time.perf_counter() - t
    sync()
    return 1e3 * s / n


def peak(f):
    if DEV != "cuda":
        return f(), 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    r = f()
    sync()
    return r, round(torch.cuda.max_memory_allocated() / 2**20)


def captured(step, opt, name, **of):
    """A replay of step as a CUDA graph, after four steps in a stream of their own; opt keeps its gradients in place."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(4):
            step()
    torch.cuda.current_stream().wait_stream(side)
    g = torch.cuda.CUDAGraph()
    opt.zero_grad(set_to_none=True)
    t = time.perf_counter()
    with torch.cuda.graph(g):
        step()
    say(name + " capture", seconds=time.perf_counter() - t, **of)
    return g.replay


def env():
    def sh(c):
        return subprocess.run(c, shell=True, capture_output=True, text=True).stdout.strip()[-1500:]

    say(
        "env",
        torch=torch.__version__,
        file=torch.__file__,
        cudnn=torch.backends.cudnn.version() if DEV == "cuda" else None,
        gpu=sh(
            "nvidia-smi -L; nvidia-smi --query-gpu=driver_version,memory.total,clocks.sm,clocks.max.sm,persistence_mode,mig.mode.current --format=csv,noheader"
        ),
        python=sys.version.split()[0],
        glibc=sh("ldd --version | head -1"),
        gxx=sh("g++ --version | head -1"),
        nvcc=sh("nvcc --version | tail -2"),
        go=sh("command -v go"),
        cpus=os.cpu_count(),
        libs=sh(f"ls {os.path.dirname(torch.__file__)}/lib {os.path.dirname(torch.__file__)}/../nvidia"),
        stdcxx=sh("strings $(g++ -print-file-name=libstdc++.so.6) 2>/dev/null | grep GLIBCXX_3.4.3 | tail -1"),
        nvidiactl=os.path.exists("/dev/nvidiactl"),
        proc=os.path.exists("/proc/driver/nvidia/version"),
        nvcc_include=sh("ls -d /usr/local/cuda*/include"),
        sdp_order=str(getattr(torch._C, "_get_sdp_priority_order", lambda: None)()),
    )


def roofs():
    n = 256 if A.dry else 8192
    a, b = torch.randn(n, n, device=DEV, dtype=torch.bfloat16), torch.randn(n, n, device=DEV, dtype=torch.bfloat16)
    ms = timed(lambda: a @ b, 20)
    x = torch.empty((1 << 20) if A.dry else (2 << 30), device=DEV, dtype=torch.uint8)
    y = torch.empty_like(x)
    cp = timed(lambda: y.copy_(x), 20)
    out = {"bf16_tflops": 2 * n**3 / ms / 1e9, "copy_tbs": 2 * x.numel() / cp / 1e9}
    del x, y
    if DEV == "cuda":
        for kib in (4, 512, 8192, 65536):
            h = torch.empty(kib << 10, dtype=torch.uint8)
            p = h.pin_memory()
            d = torch.empty(kib << 10, dtype=torch.uint8, device=DEV)
            out[f"h2d_{kib}KiB"] = {
                "pageable_us": 1e3 * wall(lambda: d.copy_(h)),
                "pinned_us": 1e3 * wall(lambda: d.copy_(p)),
                "pinned_async_us": 1e3 * wall(lambda: d.copy_(p, non_blocking=True)),
                "memcpy_to_pinned_us": 1e3 * wall(lambda: p.copy_(h)),
            }
        t = torch.zeros(16, device=DEV)
        out["tiny_kernel_us"] = 1e3 * wall(lambda: t.add_(1), 2000)
        out["item_us"] = 1e3 * wall(lambda: t[0].item(), 500)
        out["sync_us"] = 1e3 * wall(torch.cuda.synchronize, 500)
    say("roofs", **out)


# ---------------------------------------------------------------------------------------------- GEMMs
SHAPES = [("qkv fused", 768, 2304), ("proj", 768, 768), ("ffn up", 768, 3072), ("ffn down", 3072, 768)]


def gemm():
    for rows in (64,) if A.dry else (1024, 4096, 16384):
        for name, k, n in SHAPES:
            x = torch.randn(rows, k, device=DEV, dtype=torch.bfloat16)
            w = torch.randn(n, k, device=DEV, dtype=torch.bfloat16)
            b = torch.randn(n, device=DEV, dtype=torch.bfloat16)
            ms = timed(lambda: F.linear(x, w, b))
            r = {"bf16_ms": ms, "tflops": 2 * rows * k * n / ms / 1e9}
            if DEV == "cuda":
                x32, w32 = x.float(), w.float()
                r["fp32_ms"] = timed(lambda: F.linear(x32, w32))
                torch.set_float32_matmul_precision("high")
                r["tf32_ms"] = timed(lambda: F.linear(x32, w32))
                torch.set_float32_matmul_precision("highest")
            say("gemm", rows=rows, shape=name, **r)
    if DEV == "cuda":  # three products against one
        x = torch.randn(4096, 768, device=DEV, dtype=torch.bfloat16)
        w3 = [torch.randn(768, 768, device=DEV, dtype=torch.bfloat16) for _ in range(3)]
        w1 = torch.cat(w3)
        say("qkv", three_ms=timed(lambda: [F.linear(x, w) for w in w3]), one_ms=timed(lambda: F.linear(x, w1)))


def fp8():
    """e4m3 products with per-tensor scales by torch._scaled_mm, with and without making the operands."""
    if DEV != "cuda":
        return
    e4 = torch.float8_e4m3fn
    for rows in (4096, 16384, 65536):
        for name, k, n in SHAPES:
            x = torch.randn(rows, k, device=DEV, dtype=torch.bfloat16)
            w = torch.randn(n, k, device=DEV, dtype=torch.bfloat16)

            def q(t):
                s = 448.0 / t.abs().amax().float().clamp(min=1e-12)
                return (t.float() * s).clamp(-448, 448).to(e4), s.reciprocal()

            (x8, sx), (w8, sw) = q(x), q(w)
            bf = timed(lambda: F.linear(x, w))
            f8 = timed(
                lambda: torch._scaled_mm(
                    x8, w8.t(), scale_a=sx, scale_b=sw, out_dtype=torch.bfloat16, use_fast_accum=True
                )
            )
            cast = timed(lambda: q(x))
            say(
                "fp8",
                rows=rows,
                shape=name,
                bf16_ms=bf,
                fp8_ms=f8,
                eager_quantise_input_ms=cast,
                product_only=bf / f8,
                with_eager_cast=bf / (f8 + cast),
                floor_cast_ms=3 * x.numel() / 4.3e9,
            )


# ---------------------------------------------------------------------------------------------- attention
def backend(name):
    from torch.nn.attention import SDPBackend as S, sdpa_kernel

    return (
        contextlib.nullcontext()
        if name == "default"
        else sdpa_kernel(
            {
                "flash": S.FLASH_ATTENTION,
                "efficient": S.EFFICIENT_ATTENTION,
                "cudnn": S.CUDNN_ATTENTION,
                "math": S.MATH,
            }[name]
        )
    )


def varlen(q, k, v, cu, longest, p):
    return aten._flash_attention_forward(q, k, v, cu, cu, longest, longest, p, False, False, scale=q.shape[-1] ** -0.5)[
        0
    ]


def lengths_of(b, longest):
    """Lengths like MRPC's pairs: mean 53 of 128."""
    g = torch.Generator().manual_seed(1)
    return torch.randint(20, 87, (b,), generator=g).clamp(max=longest)


def sdpa():
    dt = torch.bfloat16 if DEV == "cuda" else torch.float32
    for b, l in ((2, 16),) if A.dry else ((32, 128), (128, 128), (32, 512)):
        q, k, v = (torch.randn(b, 12, l, 64, device=DEV, dtype=dt, requires_grad=True) for _ in range(3))
        n = lengths_of(b, l)
        keep = (torch.arange(l)[None] < n[:, None]).to(DEV)
        mask = keep[:, None, None, :].expand(b, 1, l, l)
        for masked in (False, True):
            for name in ("default",) if A.dry else ("default", "flash", "efficient", "cudnn", "math"):

                def once():
                    with backend(name):
                        F.scaled_dot_product_attention(q, k, v, mask if masked else None, 0.1).sum().backward()

                try:
                    t = time.perf_counter()
                    once()
                    sync()
                    first = 1e3 * (time.perf_counter() - t)
                    say(
                        "sdpa",
                        B=b,
                        L=l,
                        masked=masked,
                        backend=name,
                        first_ms=first,
                        ms=timed(once),
                        finite=bool(torch.isfinite(q.grad).all()),
                    )
                except RuntimeError as e:
                    say("sdpa", B=b, L=l, masked=masked, backend=name, error=str(e)[:160])
                q.grad = k.grad = v.grad = None
        if DEV == "cuda":
            total = int(n.sum())
            cu = F.pad(n.cumsum(0), (1, 0)).to(torch.int32).to(DEV)
            a, c, d = (torch.randn(total, 12, 64, device=DEV, dtype=dt, requires_grad=True) for _ in range(3))
            say(
                "sdpa",
                B=b,
                L=l,
                backend="varlen flash",
                tokens=total,
                of=b * l,
                ms=timed(lambda: varlen(a, c, d, cu, int(n.max()), 0.1).sum().backward()),
            )
    if DEV == "cuda":  # the price of a new shape
        for name in ("default", "efficient"):
            first = []
            for l in range(60, 84, 4):
                q, k, v = (torch.randn(32, 12, l, 64, device=DEV, dtype=dt, requires_grad=True) for _ in range(3))
                mask = torch.ones(32, 1, 1, l, device=DEV, dtype=torch.bool).expand(32, 1, l, l)
                sync()
                t = time.perf_counter()
                with backend(name):
                    F.scaled_dot_product_attention(q, k, v, mask, 0.1).sum().backward()
                sync()
                first.append(round(1e3 * (time.perf_counter() - t), 2))
            say("sdpa new shapes", backend=name, first_ms_of_each=first)


# ---------------------------------------------------------------------------------------------- BERT
class Bert(torch.nn.Module):
    """BertForSequenceClassification's arithmetic, padded ([B,L]) or packed ([T])."""

    def __init__(self, layers, hidden, heads, p=0.1, fused_qkv=False):
        super().__init__()
        nn, h = torch.nn, hidden
        self.word, self.pos, self.typ, self.ln, self.heads, self.p, self.fused = (
            nn.Embedding(30522, h),
            nn.Embedding(512, h),
            nn.Embedding(2, h),
            nn.LayerNorm(h, 1e-12),
            heads,
            p,
            fused_qkv,
        )
        self.layers = nn.ModuleList()
        for _ in range(layers):
            m = nn.ModuleDict(
                dict(
                    o=nn.Linear(h, h),
                    n1=nn.LayerNorm(h, 1e-12),
                    up=nn.Linear(h, 4 * h),
                    down=nn.Linear(4 * h, h),
                    n2=nn.LayerNorm(h, 1e-12),
                )
            )
            if fused_qkv:
                m["qkv"] = nn.Linear(h, 3 * h)
            else:
                m["q"], m["k"], m["v"] = nn.Linear(h, h), nn.Linear(h, h), nn.Linear(h, h)
            self.layers.append(m)
        self.pool, self.head = torch.nn.Linear(h, h), torch.nn.Linear(h, 2)

    def forward(self, ids, types, positions, mask=None, cu=None, longest=0):
        drop = lambda t: F.dropout(t, self.p, self.training)
        x = drop(self.ln(self.word(ids) + self.typ(types) + self.pos(positions)))
        h = x.shape[-1]
        d = h // self.heads
        for m in self.layers:
            q, k, v = m["qkv"](x).chunk(3, -1) if self.fused else (m["q"](x), m["k"](x), m["v"](x))
            if cu is not None:
                a = varlen(*(t.reshape(-1, self.heads, d) for t in (q, k, v)), cu, longest, self.p).reshape(-1, h)
            else:
                a = (
                    F.scaled_dot_product_attention(
                        *(t.view(*t.shape[:2], self.heads, d).transpose(1, 2) for t in (q, k, v)), mask, self.p
                    )
                    .transpose(1, 2)
                    .reshape(x.shape)
                )
            x = m["n1"](drop(m["o"](a)) + x)
            x = m["n2"](drop(m["down"](F.gelu(m["up"](x)))) + x)
        first = x[cu[:-1].long()] if cu is not None else x[:, 0]
        return self.head(drop(torch.tanh(self.pool(first))))


def bert():
    layers, hidden, heads = (2, 64, 2) if A.dry else (12, 768, 12)
    for b in (2,) if A.dry else (8, 32, 128):
        l = 16 if A.dry else 128
        n = lengths_of(b, l)
        keep = torch.arange(l)[None] < n[:, None]
        ids = (torch.randint(1, 1000, (b, l)) * keep).to(DEV)
        types = torch.zeros_like(ids)
        pos = torch.arange(l, device=DEV)[None].expand(b, l)
        labels = torch.randint(0, 2, (b,), device=DEV)
        mask = keep.to(DEV)[:, None, None, :].expand(b, 1, l, l)
        flat = keep.flatten().nonzero()[:, 0].to(DEV)
        cu = F.pad(n.cumsum(0), (1, 0)).to(torch.int32).to(DEV)
        packed = dict(
            ids=ids.flatten()[flat],
            types=types.flatten()[flat],
            positions=pos.flatten()[flat],
            cu=cu,
            longest=int(n.max()),
        )
        padded = dict(ids=ids, types=types, positions=pos, mask=mask)

        def variant(name, inputs, cast=True, fused=False, graph=False, attention="default", sync_every=False):
            torch.manual_seed(1)
            model = Bert(layers, hidden, heads, fused_qkv=fused).to(DEV).train()
            params = list(model.parameters())
            rate = torch.tensor(5e-5, device=DEV) if graph else 5e-5
            opt = torch.optim.AdamW(params, lr=rate, weight_decay=0.0, fused=True, capturable=graph)
            total = torch.zeros((), device=DEV)

            def step():
                with torch.autocast(DEV, torch.bfloat16, enabled=cast), backend(attention):
                    loss = F.cross_entropy(model(**inputs), labels)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(params, 1.0, foreach=True)
                opt.step()
                total.add_(loss.detach())
                opt.zero_grad(set_to_none=not graph)
                if sync_every:
                    loss.item()

            run = captured(step, opt, "bert", B=b) if graph else step
            ms, mb = peak(lambda: wall(run, 40, 8))
            say(
                "bert",
                B=b,
                L=l,
                variant=name,
                ms=ms,
                seq_per_s=1e3 * b / ms,
                host_ms=host(run, 10),
                peak_mb=mb,
                loss=float(total),
            )
            del model, opt

        variant("bf16 mask, per-step item (HF-like)", padded, sync_every=True)
        variant("bf16 mask", padded)
        variant("fp32 mask", padded, cast=False)
        variant("bf16 mask fused qkv", padded, fused=True)
        if DEV == "cuda":
            for a in ("flash", "efficient", "cudnn"):
                try:
                    variant(f"bf16 no mask {a}", dict(padded, mask=None), attention=a)
                except RuntimeError as e:
                    say("bert", B=b, variant=a, error=str(e)[:200])
            variant("bf16 mask efficient", padded, attention="efficient")
            variant("bf16 mask graph", padded, graph=True, attention="efficient")
            variant("bf16 no mask graph flash", dict(padded, mask=None), graph=True, attention="flash")
            variant("bf16 packed varlen", packed)
            variant("bf16 packed varlen fused qkv", packed, fused=True)
            variant("bf16 packed varlen graph fused qkv", packed, fused=True, graph=True)


# ---------------------------------------------------------------------------------------------- CTC, CRNN, MLP
def ctc():
    t, b, c, s = 32, 32, 68, 7
    lp = torch.randn(t, b, c, device=DEV).log_softmax(2).detach().requires_grad_()
    y = torch.randint(1, c, (b, s))
    il, tl = torch.full((b,), t), torch.full((b,), s)
    forms = {
        "int64 GPU targets, int64 CPU lengths (ours)": (y.flatten().to(DEV), il, tl),
        "int64 2d GPU targets": (y.to(DEV), il, tl),
        "int32 CPU targets + int32 CPU lengths (cuDNN?)": (y.flatten().int(), il.int(), tl.int()),
        "int32 GPU all (cuDNN graph-capturable?)": (y.flatten().int().to(DEV), il.int().to(DEV), tl.int().to(DEV)),
    }
    for name, (a, i, u) in forms.items():

        def once():
            lp.grad = None
            F.ctc_loss(lp, a, i, u, zero_infinity=True).backward()

        try:
            ms = wall(once)
            calls = {}
            if DEV == "cuda":
                with torch.profiler.profile(
                    activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
                ) as prof:
                    once()
                for e in prof.key_averages():
                    if "Synchronize" in e.key or "Memcpy" in e.key or e.key.startswith("aten::_c") and "ctc" in e.key:
                        calls[e.key] = e.count
            say("ctc", form=name, ms=ms, calls=calls, loss=float(F.ctc_loss(lp, a, i, u, zero_infinity=True)))
        except RuntimeError as e:
            say("ctc", form=name, error=str(e)[:200])


def crnn():
    here = os.path.dirname(os.path.abspath(__file__))
    for p in (os.environ.get("PEERS", ""), here + "/../bench_compare/peers"):
        if p and os.path.exists(p + "/common.py"):
            sys.path.insert(0, p)
            break
    import common

    spec = common.spec_for("crnn", DEV)
    x = torch.randn(4 if A.dry else 32, 1, 32, 128, device=DEV)
    y = torch.randint(1, 68, (x.shape[0], 7))
    tl, il = torch.full((x.shape[0],), 7), torch.full((x.shape[0],), 32)
    for name, cl, bench, cast, graph in (
        ("NCHW fp32", 0, 0, 0, 0),
        ("NHWC fp32", 1, 0, 0, 0),
        ("NHWC fp32 benchmark", 1, 1, 0, 0),
        ("NCHW bf16", 0, 0, 1, 0),
        ("NHWC bf16 benchmark", 1, 1, 1, 0),
        ("NHWC bf16 benchmark graph, int32 CTC", 1, 1, 1, 1),
    ):
        if (graph or cast) and DEV != "cuda":  # a CPU's LSTM in bf16 is thousands of operators
            continue
        torch.manual_seed(1)
        torch.backends.cudnn.benchmark = bool(bench)
        m = common.make_crnn(torch).to(DEV).train()
        if cl:
            m = m.to(memory_format=torch.channels_last)
        for r in (m.rnn1, m.rnn2):
            r.flatten_parameters()
        opt = torch.optim.AdamW(
            m.parameters(),
            lr=torch.tensor(1e-3, device=DEV) if graph else 1e-3,
            fused=True,
            capturable=bool(graph),
            weight_decay=0.0,
        )
        tgt = (
            (y.flatten().int().to(DEV), il.int().to(DEV), tl.int().to(DEV)) if graph else (y.flatten().to(DEV), il, tl)
        )

        def step():
            with torch.autocast(DEV, torch.bfloat16, enabled=bool(cast)):
                lp = m(x)
            F.ctc_loss(lp.float(), *tgt, zero_infinity=True).backward()
            opt.step()
            opt.zero_grad(set_to_none=not graph)

        try:
            run = captured(step, opt, "crnn", variant=name) if graph else step
            ms, mb = peak(lambda: wall(run, 40, 10))
            say("crnn", variant=name, ms=ms, host_ms=host(run, 10), images_per_s=1e3 * x.shape[0] / ms, peak_mb=mb)
        except RuntimeError as e:
            say("crnn", variant=name, error=str(e)[:300])


def mlp():
    for width, b in ((256, 64), (32, 16)):
        m = torch.nn.Sequential(
            torch.nn.Linear(784, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, 10),
        ).to(DEV)
        data, lab = torch.randn(6000, 784, device=DEV), torch.randint(0, 10, (6000,), device=DEV)
        at = torch.zeros((), dtype=torch.int64, device=DEV)
        order = torch.randperm(6000, device=DEV)
        for graph in (False, True):
            if graph and DEV != "cuda":
                continue
            opt = torch.optim.AdamW(
                m.parameters(),
                lr=torch.tensor(1e-3, device=DEV) if graph else 1e-3,
                fused=True,
                capturable=graph,
                weight_decay=0.0,
            )

            def step():
                idx = order.index_select(0, (at + torch.arange(b, device=DEV)) % 6000)
                F.cross_entropy(m(data.index_select(0, idx)), lab.index_select(0, idx)).backward()
                opt.step()
                opt.zero_grad(set_to_none=not graph)
                at.add_(b)

            run = captured(step, opt, "mlp", width=width, B=b) if graph else step
            say(
                "mlp",
                width=width,
                B=b,
                graph=graph,
                us=1e3 * wall(run, 2000 if not A.dry else 2, 50),
                host_us=1e3 * host(run),
            )


def sync_mode():
    """Which calls of a usual step wait, by torch's own switch."""
    if DEV != "cuda":
        return
    import warnings

    torch.cuda.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        torch.ones(4).to(DEV)
        torch.ones(4).pin_memory().to(DEV, non_blocking=True)
        torch.ones(4, device=DEV).sum().item()
        say("sync", warnings=[str(x.message)[:120] for x in w], note="pageable to(): does the switch see it?")
    torch.cuda.set_sync_debug_mode("default")


for what in A.what:
    t = time.perf_counter()
    try:
        {
            "env": env,
            "roofs": roofs,
            "gemm": gemm,
            "fp8": fp8,
            "sdpa": sdpa,
            "bert": bert,
            "ctc": ctc,
            "crnn": crnn,
            "mlp": mlp,
            "sync": sync_mode,
        }[what]()
    except Exception as e:  # a lever that breaks must not cost the others
        say(what, error=f"{type(e).__name__}: {e}"[:400])
    say("took " + what, s=round(time.perf_counter() - t, 1))
