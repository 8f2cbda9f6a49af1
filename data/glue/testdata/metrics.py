"""Writes metrics.json: for pairs of predictions and references, what evaluate's metric "glue" gives for each task. It
is computed as evaluate's glue.py does, by scikit-learn and SciPy.
"""

import json
import os

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import f1_score, matthews_corrcoef

rng = np.random.default_rng(0)
out = []
for n in (2, 7, 50, 408):
    predictions, references = rng.integers(0, 2, n), rng.integers(0, 2, n)
    scores, wanted = rng.normal(2.5, 1, n).round(2), rng.uniform(0, 5, n).round(1)
    accuracy = float((predictions == references).mean())
    out.append(
        {
            "predictions": predictions.tolist(),
            "references": references.tolist(),
            "scores": scores.tolist(),
            "wanted": wanted.tolist(),
            "results": {
                "cola": {"matthews_correlation": float(matthews_corrcoef(references, predictions))},
                "mrpc": {"accuracy": accuracy, "f1": float(f1_score(y_true=references, y_pred=predictions))},
                "qqp": {"accuracy": accuracy, "f1": float(f1_score(y_true=references, y_pred=predictions))},
                "sst2": {"accuracy": accuracy},
                "mnli": {"accuracy": accuracy},
                "stsb": {
                    "pearson": float(pearsonr(scores, wanted)[0]),
                    "spearmanr": float(spearmanr(scores, wanted)[0]),
                },
            },
        }
    )
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "metrics.json"), "w") as f:
    json.dump(out, f)
    f.write("\n")
