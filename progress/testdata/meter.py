"""Writes meter.json: lines of tqdm.format_meter for counts, times, widths, units, descriptions and postfixes."""

import itertools
import json
import os

from tqdm import tqdm

out = []
for (n, total), elapsed, ncols, ascii in itertools.product(
    ((0, 1377), (1, 1377), (688, 1377), (1377, 1377), (3, 7), (7, 0), (9, 7)),
    (0, 0.5, 61, 4000.25),
    (20, 60, 79),
    (False, True),
):
    for unit, prefix, postfix in (("it", "", ""), ("batch", "training", "loss=0.31")):
        line = tqdm.format_meter(
            n, total or None, elapsed, ncols=ncols, prefix=prefix, ascii=ascii, unit=unit, postfix=postfix or None
        )
        out.append(
            {
                "n": n,
                "total": total,
                "elapsed": elapsed,
                "columns": ncols,
                "ascii": ascii,
                "unit": unit,
                "description": prefix,
                "postfix": postfix,
                "line": line,
            }
        )
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "meter.json"), "w") as f:
    json.dump(out, f, ensure_ascii=False, indent=0)
    f.write("\n")
