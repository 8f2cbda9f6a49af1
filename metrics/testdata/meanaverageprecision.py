"""Golden values from pycocotools' COCOeval of boxes: python meanaverageprecision.py writes meanaverageprecision.json
beside it.

Needs pycocotools 2.0.11 and numpy.
"""

import contextlib
import io
import json
import pathlib

import numpy as np
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

rng = np.random.default_rng(3)
NAMES = [
    *("map", "map_50", "map_75", "map_small", "map_medium", "map_large"),
    *("mar_1", "mar_10", "mar_100", "mar_small", "mar_medium", "mar_large"),
]
cases = []


def case(name, images):
    """images: for each the boxes found (class, x, y, w, h, score) and those there (class, x, y, w, h, area, iscrowd)"""
    classes = sorted({int(b[0]) for im in images for boxes in im for b in boxes})
    there, found = [], []
    for i, (f, t) in enumerate(images):
        for b in t:
            there.append(
                dict(
                    id=len(there) + 1,
                    image_id=i,
                    category_id=int(b[0]),
                    bbox=b[1:5],
                    area=b[5] or b[3] * b[4],
                    iscrowd=int(b[6]),
                )
            )
        found += [dict(image_id=i, category_id=int(b[0]), bbox=b[1:5], score=b[5]) for b in f]
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = dict(
            info={},
            images=[dict(id=i) for i in range(len(images))],
            annotations=there,
            categories=[dict(id=c) for c in classes],
        )
        truth.createIndex()
        e = COCOeval(truth, truth.loadRes(found) if found else COCO(), "bbox")
        e.evaluate()
        e.accumulate()
        e.summarize()
    results = dict(zip(NAMES, e.stats.tolist()))
    for k, c in enumerate(classes):
        p, r = e.eval["precision"][:, :, k, 0, -1], e.eval["recall"][:, k, 0, -1]
        results[f"map_{c}"] = float(p[p > -1].mean()) if (p > -1).any() else -1.0
        results[f"mar_100_{c}"] = float(r[r > -1].mean()) if (r > -1).any() else -1.0
    cases.append(dict(name=name, images=images, results=results))


def boxes(n, classes, size):
    return [
        [int(rng.integers(classes)), *(round(float(v), 2) for v in (*rng.uniform(0, 200, 2), *rng.uniform(2, size, 2)))]
        for _ in range(n)
    ]


def randomly(name, n, classes, size, noise, most, levels=1000, crowds=0.0):
    images = []
    for _ in range(n):
        there = [
            [*b, round(b[3] * b[4] * float(rng.uniform(0.5, 1)), 2), int(rng.random() < crowds)]
            for b in boxes(int(rng.integers(most + 1)), classes, size)
        ]
        found = [
            [b[0], *(round(float(v + rng.normal(0, noise)), 2) for v in b[1:3])]
            + [round(float(max(1, v + rng.normal(0, noise))), 2) for v in b[3:5]]
            for b in there
            if rng.random() < 0.8
        ]
        found += boxes(int(rng.integers(most + 1)), classes, size)
        found = [[*b, float(rng.integers(1, levels)) / levels] for b in found]
        images.append((found, there))
    case(name, images)


A, B = [0, 10, 10, 40, 40], [1, 60, 60, 20, 30]
case("one object, found", [([[*A, 0.9]], [[*A, 0, 0]])])
case("one object, not found", [([], [[*A, 0, 0]]), ([[*A, 0.5]], [])])
case("another class", [([[1, *A[1:], 0.9]], [[*A, 0, 0]])])
case("found twice", [([[*A, 0.9], [*A, 0.8]], [[*A, 0, 0]])])
case("equal scores", [([[*A, 0.5], [0, 12, 10, 40, 40, 0.5], [*B, 0.5]], [[*A, 0, 0], [*B, 0, 0]])])
case("in a crowd", [([[*A, 0.9], [0, 20, 20, 5, 5, 0.8], [*B, 0.7]], [[0, 0, 0, 90, 90, 0, 1], [*B, 0, 0]])])
case("only a crowd", [([[*A, 0.9]], [[*A, 0, 1]])])
case("just half of it", [([[0, 0, 0, 10, 5, 0.9]], [[0, 0, 0, 10, 10, 0, 0]])])
SIZES = [[0, 0, 0, 32, 32], [0, 100, 0, 96, 96]]
case("at the limits of areas", [([[*s, 0.9] for s in SIZES], [[*s, 0, 0] for s in SIZES])])
case("without area", [([[0, 5, 5, 0, 0, 0.3], [*A, 0.2]], [[0, 5, 5, 0, 0, 0, 0], [*A, 0, 0]])])
randomly("small and large", 6, 3, 150, 2, 6)
randomly("crowds", 6, 2, 100, 3, 6, crowds=0.3)
randomly("few scores", 6, 2, 60, 2, 8, levels=4)
randomly("many objects", 2, 1, 30, 1, 130)
randomly("far off", 5, 4, 60, 12, 5)
with open(pathlib.Path(__file__).resolve().parent / "meanaverageprecision.json", "w") as f:
    json.dump({"made with": "pycocotools 2.0.11", "cases": cases}, f)
    f.write("\n")
