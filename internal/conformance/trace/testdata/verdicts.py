"""Writes verdicts.json: what an independent judge says of 80 altered traces.

  python verdicts.py [compare.py]      the judge: compare.py of the recorded cases; by default that of a checkout beside this one

Without the judge the file stays as it is.
"""

import copy
import importlib.util
import json
import os
import random
import sys

here = os.path.dirname(os.path.abspath(__file__))
judge = (
    sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "../../../../../shared/conformance/generate/compare.py")
)
if not os.path.exists(judge):
    sys.exit(print("verdicts.py: no judge at", judge))
module = importlib.util.spec_from_file_location("compare", judge)
compare = importlib.util.module_from_spec(module)
module.loader.exec_module(compare)

BASE = {
    "env": {"torch": "2.11.0"},
    "phases": [{"do": "train", "batches": 2, "updates": 2}],
    "initial": {"weights_norm": (1.375).hex(), "weights_sha256": "ab"},
    "batches": [[3, 1], [2, 0]],
    "micro_losses": [(0.3).hex(), "nan"],
    "param_groups": [{"weight_decay": 0.1, "params": ["a", "b"]}],
    "updates": [
        {
            "update": k,
            "epoch": k / 2,
            "grad_norm": None,
            "lr": [(0.1 / k).hex()],
            "skipped": False,
            "scale": (8.0).hex(),
            "weights_norm": (1.25 * k).hex(),
            "weights_sha256": "cd",
        }
        for k in (1, 2)
    ],
    "log_history": [
        {"loss": 1.25, "step": 1, "learning_rate": 0.05, "total_flos": 3.0},
        {"eval_loss": "inf", "step": 2},
    ],
    "events": [["on_init_end", 0, None], ["on_step_end", 1, 0.5]],
    "evaluations": [],
    "checkpoints": {
        "written": ["checkpoint-2"],
        "state": {"checkpoint-2": {"epoch": 1.0, "best_metric": None, "is_local_process_zero": True}},
    },
    "best": {"metric": 0.75, "step": 2},
    "train_output": {"global_step": 2},
    "error": None,
}


def places(x, path=()):
    yield path
    for k, v in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ():
        yield from places(v, path + (k,))


def alter(trace, r):
    path = r.choice([p for p in places(trace) if p])
    holder = trace
    for k in path[:-1]:
        holder = holder[k]
    v, what = holder[path[-1]], r.randrange(8)
    number = compare.number(v)
    if number is not None and what < 5:
        n = number * (1 + r.choice([0, 1e-16, 1e-13, 1e-9, 1e-6, 1e-3, 0.5])) + r.choice([0, 0, 1e-16, 1e-9])
        holder[path[-1]] = (
            n if isinstance(v, (int, float)) else n.hex() if n == n and abs(n) != float("inf") else repr(n)
        )
    elif what == 5:
        del holder[path[-1]]
    elif what == 6:
        holder[path[-1]] = r.choice([None, 0, 1, True, "x", "nan", [], {}, 0.5, {"where": "train"}, {"where": "setup"}])
    elif isinstance(v, list):
        v.append(v[-1] if v else 1)


r, cases = random.Random(11), []
for i in range(80):
    stored, got = copy.deepcopy(BASE), copy.deepcopy(BASE)
    if i % 4 == 0:
        alter(stored, r)
    for _ in range(r.randrange(4)):
        alter(got, r)
    rtol = r.choice([1e-4, 2e-2])
    rows = {name: verdict for name, verdict, _ in compare.compare({}, stored, got, rtol)}
    cases.append({"stored": stored, "got": got, "rtol": rtol, "rows": rows})
with open(os.path.join(here, "verdicts.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
