"""Times what BenchmarkStep of bench_test.go times: one update of torch.optim's fused optimizers over 60 parameters, on
one thread, in CPU time.
"""

import time

import torch

torch.set_num_threads(1)
for name, make in {
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
    "SGD": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9, fused=True),
}.items():
    for size in (10_000, 1):
        params = [torch.ones(size, requires_grad=True) for _ in range(60)]
        for p in params:
            p.grad = torch.full((size,), 0.5)
        opt = make(params)
        best = float("inf")
        for _ in range(20):
            opt.step()
        for _ in range(7):
            start = time.process_time()
            for _ in range(200):
                opt.step()
            best = min(best, (time.process_time() - start) / 200)
        print(f"{name}/60x{size}  {best * 1e9:.0f} ns/op")
