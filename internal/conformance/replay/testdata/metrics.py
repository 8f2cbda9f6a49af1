"""Writes metrics.json: accuracy, macro F1 and mean absolute error as numpy computes them, nan and left out positions
among the inputs.
"""

import json
import os

import numpy as np

rng = np.random.default_rng(3)


def compute(names, logits, labels):
    out = {}
    for name in names:
        if name == "mae":
            out[name] = float(
                np.abs(logits.reshape(-1).astype(np.float64) - labels.reshape(-1).astype(np.float64)).mean()
            )
            continue
        pred, ref = logits.argmax(-1).reshape(-1), labels.reshape(-1)
        pred, ref = pred[ref != -100], ref[ref != -100]
        if name == "accuracy":
            out[name] = float((pred == ref).mean())
            continue
        scores = []
        for c in sorted(set(pred.tolist()) | set(ref.tolist())):
            tp, fp, fn = (
                ((pred == c) & (ref == c)).sum(),
                ((pred == c) & (ref != c)).sum(),
                ((pred != c) & (ref == c)).sum(),
            )
            scores.append(2 * int(tp) / int(2 * tp + fp + fn) if tp else 0.0)
        out[name] = sum(scores) / len(scores)
    return out


def case(name, names, logits, labels):
    logits = logits.astype(np.float32)
    return {
        "name": name,
        "metrics": names,
        "logits": [None if np.isnan(x) else float(x) for x in logits.reshape(-1)],
        "width": logits.shape[-1] if logits.ndim > 1 else 1,
        "labels": [float(x) for x in labels.reshape(-1)],
        "expected": compute(names, logits, labels),
    }


cases = [
    case(f"classes of {n}", ["accuracy", "macro_f1"], rng.standard_normal((n, 4)), rng.integers(0, 4, n))
    for n in (1, 21)
]
odd = rng.standard_normal((9, 3))
odd[2, 1] = odd[2, 2] = odd[5, 0] = np.nan
odd[7] = 0.5
cases.append(case("nan is the largest, the first of equals wins", ["accuracy", "macro_f1"], odd, rng.integers(0, 3, 9)))
tokens = rng.integers(-1, 5, (4, 6))
tokens[tokens < 0] = -100
cases.append(case("tokens, some of them left out", ["macro_f1", "accuracy"], rng.standard_normal((4, 6, 5)), tokens))
cases += [
    case(f"errors of {n}", ["mae"], rng.standard_normal(n), rng.standard_normal(n).astype(np.float32))
    for n in (5, 100, 130, 700)
]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "metrics.json"), "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
