"""Writes pow.json: [x, y, x**y] as Python computes it, for the powers that optimizers take."""

import json
import os

rows = [[b, float(t), b**t] for b in (0.9, 0.95, 0.99, 0.999) for t in list(range(1, 60)) + [1000, 12345]]
rows += [[float(t), p, float(t) ** p] for p in (-0.8, -0.5) for t in range(1, 80)]
rows += [[0.96, t * 0.004, 0.96 ** (t * 0.004)] for t in range(1, 60)]
path = os.path.splitext(os.path.abspath(__file__))[0] + ".json"
with open(path, "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(r) for r in rows) + "\n]\n")
