"""Golden values from scipy.optimize.linear_sum_assignment: python assignment.py writes assignment.json beside it.

Needs scipy 1.17.1.
"""

import json
import pathlib

import numpy as np
import scipy
from scipy.optimize import linear_sum_assignment

rng = np.random.default_rng(5)
cases = []


def case(costs):
    costs = np.asarray(costs, dtype=np.float64)
    rows, columns = linear_sum_assignment(costs)
    cases.append(
        dict(
            rows=costs.shape[0],
            columns=costs.shape[1],
            costs=[c if np.isfinite(c) else 1e300 for c in costs.flatten().tolist()],
            pairs=np.stack([rows, columns], 1).tolist(),
        )
    )


for shape in [(1, 1), (1, 4), (4, 1), (3, 3), (5, 3), (3, 5), (8, 8), (6, 0), (0, 3), (20, 7), (7, 20)]:
    case(np.zeros(shape))  # all pairings are best
    case(rng.integers(0, 3, shape))  # many are
    case(rng.integers(-4, 5, shape))
    case(rng.normal(size=shape))
for _ in range(60):
    shape = tuple(rng.integers(1, 9, 2))
    case(rng.integers(0, rng.integers(2, 6), shape))
    case(rng.normal(size=shape).astype(np.float32))
infinite = rng.integers(0, 4, (6, 6)).astype(np.float64)
infinite[rng.random((6, 6)) < 0.3] = np.inf
case(infinite)
with open(pathlib.Path(__file__).resolve().parent / "assignment.json", "w") as f:
    json.dump({"made with": f"scipy {scipy.__version__}", "cases": cases}, f)
    f.write("\n")
