"""Writes meaniou.json: what the metric mean_iou of Hugging Face's evaluate says of maps of classes. mean_iou below
computes it with the same operations of numpy; it was compared with evaluate's own source on all of these maps.
"""

import json
import pathlib
import warnings

import numpy as np

warnings.filterwarnings("ignore")


def mean_iou(maps, classes, ignored, reduce=False):
    """The result for pairs of a predicted and a reference map"""

    def areas(of):
        return np.histogram(of, bins=classes, range=(0, classes - 1))[0].astype(np.float64)

    hits, predicted, there = np.zeros((3, classes))
    for guess, truth in maps:
        if reduce:
            truth = np.where((truth == 0) | (truth == 255), 255, truth - 1)
        guess, truth = guess[truth != ignored], truth[truth != ignored]
        hits += areas(truth[guess == truth])
        predicted += areas(guess)
        there += areas(truth)
    iou, accuracy = hits / (predicted + there - hits), hits / there
    return dict(
        mean_iou=np.nanmean(iou),
        mean_accuracy=np.nanmean(accuracy),
        overall_accuracy=hits.sum() / there.sum(),
        per_category_iou=iou,
        per_category_accuracy=accuracy,
    )


def main():
    g = np.random.default_rng(1)
    cases = []
    # classes, the highest label of the maps, ignored label, reduce_labels, number of maps
    for classes, most, ignored, reduce, n in [
        (2, 1, 255, False, 1),
        (5, 4, 255, False, 3),
        (5, 3, 0, False, 2),
        (7, 9, 255, False, 2),  # labels that are not counted
        (7, 7, 255, True, 2),
        (150, 140, 255, True, 2),
        (300, 280, 255, False, 2),
        (4, 0, 0, False, 1),  # nothing is left
        (3, 2, 254, True, 2),
    ]:
        maps = []
        for _ in range(n):
            shape = int(g.integers(3, 9)), int(g.integers(3, 9))
            label = g.integers(0, most + 1, shape)
            label[g.random(shape) < 0.1] = 255
            right = g.random(shape) < 0.6
            maps.append((np.where(right & (label < classes), label, g.integers(0, classes, shape)), label))
        cases.append(
            dict(
                classes=classes,
                ignored=ignored,
                reduce=reduce,
                maps=[dict(predictions=p.ravel().tolist(), references=l.ravel().tolist()) for p, l in maps],
                result={k: np.asarray(v).tolist() for k, v in mean_iou(maps, classes, ignored, reduce).items()},
            )
        )
    text = json.dumps({"cases": cases}).replace("NaN", "null")
    pathlib.Path(__file__).with_name("meaniou.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
