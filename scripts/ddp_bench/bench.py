"""Compares several processes in Go and in Python on this machine.

    make .build/peers/ready
    .build/peers/bin/python scripts/ddp_bench/bench.py [--rounds 5] [--world 2] [--rows all_reduce mlp bert_small]

It times all_reduce of 1 KiB to 256 MiB, and updates of two models under DistributedDataParallel with gloo. Each round
runs both sides in turn; the table shows medians over the rounds. Needs Go and libtorch (make setup). The Python that
runs it is the one that is compared: any with torch and, for bert_small, transformers.
"""

import argparse
import json
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time


def update(what, updates=40, warmup=5):
    import torch
    from torch import nn

    torch.manual_seed(42)
    if what == "mlp":
        model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
        x, y = torch.randn(64, 784), torch.randint(0, 10, (64,))
    else:
        from transformers import BertConfig, BertForSequenceClassification

        model = BertForSequenceClassification(
            BertConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)
        )
        model.train()
        x, y = torch.randint(1, 30000, (8, 64)), torch.randint(0, 2, (8,))
    parallel = nn.parallel.DistributedDataParallel(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    times = []
    for i in range(warmup + updates):
        if i == warmup:
            before = processor()
        begin = time.perf_counter()
        out = parallel(x)
        nn.functional.cross_entropy(out if what == "mlp" else out.logits, y).backward()
        opt.step()
        opt.zero_grad()
        times.append(time.perf_counter() - begin)
    report(what, times[warmup:], processor() - before)


def all_reduce():
    import torch
    import torch.distributed as dist

    size = 1 << 10
    while size <= 256 << 20:
        n = max(5, min(300, (64 << 20) // size))
        x = torch.ones(size // 4)
        times = []
        for i in range(n + 3):
            if i == 3:
                before = processor()
            begin = time.perf_counter()
            dist.all_reduce(x)
            times.append(time.perf_counter() - begin)
            x.fill_(1)
        report(f"all_reduce {size >> 10} KiB", times[3:], processor() - before)
        size *= 4


def report(row, times, cpu):
    if os.environ["RANK"] != "0":
        return
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(
        json.dumps(
            {"row": row, "ms": statistics.median(times) * 1e3, "cpu_ms": cpu * 1e3 / len(times), "peak_rss_mb": peak}
        )
    )


def processor():
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def run(command, world):
    """The lines of rank 0."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    processes = []
    for rank in range(world):
        env = os.environ | {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
        }
        processes.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True))
    outs = [p.communicate()[0] for p in processes]
    if any(p.returncode for p in processes):
        sys.exit(f"{command} failed")
    return [json.loads(line) for line in outs[0].splitlines()]


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--rounds", type=int, default=5)
    args.add_argument("--world", type=int, default=2)
    args.add_argument("--rows", nargs="+", default=["all_reduce", "mlp", "bert_small"])
    args.add_argument("--process", help=argparse.SUPPRESS)
    args = args.parse_args()
    if args.process:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        all_reduce() if args.process == "all_reduce" else update(args.process)
        dist.destroy_process_group()
        return
    here = pathlib.Path(__file__).resolve()
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/ddp_bench"
        subprocess.run(["go", "build", "-o", program, "./scripts/ddp_bench"], check=True, cwd=here.parents[2])
        found = {}
        for _ in range(args.rounds):
            for what in args.rows:
                for name, command in [
                    ("go", [program, what]),
                    ("python", [sys.executable, str(here), "--process", what]),
                ]:
                    for line in run(command, args.world):
                        found.setdefault(line["row"], {}).setdefault(name, []).append(line)
    import torch

    with open("/proc/cpuinfo") as f:
        cpu = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "an unknown CPU")
    print(
        f"{args.world} processes, {args.rounds} rounds, torch {torch.__version__}, {os.cpu_count()} cores of {cpu}, load {os.getloadavg()[0]:.1f}\n"
    )
    print("| row | Python, ms | gotrainer, ms | Python / gotrainer | processor time, ms | peak memory, MB |")
    print("| --- | --- | --- | --- | --- | --- |")
    for row, by in found.items():
        of = lambda name, key: statistics.median(line[key] for line in by[name])  # noqa: E731
        ratio = statistics.median(p["ms"] / g["ms"] for p, g in zip(by["python"], by["go"]))
        print(
            f"| {row} | {of('python', 'ms'):.2f} | {of('go', 'ms'):.2f} | {ratio:.2f} "
            f"| {of('python', 'cpu_ms'):.2f}, {of('go', 'cpu_ms'):.2f} | {of('python', 'peak_rss_mb'):.0f}, {of('go', 'peak_rss_mb'):.0f} |"
        )


if __name__ == "__main__":
    main()
