"""Writes squad.json: numbers of metrics squad and squad_v2 of evaluate, that this package must repeat.

EVALUATE names a checkout of github.com/huggingface/evaluate (its package does not hold the metrics); without it nothing
is written.
"""

import importlib.util
import json
import os
import pathlib
import random
import sys

here = pathlib.Path(__file__).parent
if "EVALUATE" not in os.environ:
    sys.exit(
        print("squad.py: set EVALUATE to a checkout of github.com/huggingface/evaluate; squad.json stays as it is")
    )


def load(name):
    spec = importlib.util.spec_from_file_location(
        name, pathlib.Path(os.environ["EVALUATE"], "metrics", name, "compute_score.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


squad, v2 = load("squad"), load("squad_v2")
rng = random.Random(7)
words = [
    "the",
    "The",
    "a",
    "an",
    "AN",
    "Denver",
    "denver",
    "Broncos",
    "team",
    "of",
    "1976",
    "C++",
    "U.S.",
    "don't",
    "well-known",
    "“quoted”",
    "naïve",
    "the–cat",
    "İstanbul",
    "ΟΔΟΣ",
    "οδος",
    "athe",
    "under_score",
    "_a_",
    "$5",
    "三",
    "½",
    "the\u00a0cat",
    "tab\tbed",
    "file\x1cseparator",
    "",
]


def text():
    return rng.choice([" ", "  ", ", ", " "]).join(rng.choice(words) for _ in range(rng.randint(0, 4)))


cases = []
for n in range(60):
    rows = []
    for i in range(rng.randint(1, 8)):
        right = [text() for _ in range(rng.randint(1, 3))]
        rows.append(
            {
                "prediction": rng.choice([rng.choice(right), text(), text()]),
                "references": right,
                "no_answer": round(rng.random() * 1.05, 3),
                "unanswerable": rng.random() < 0.4,
            }
        )
    one = [
        {
            "paragraphs": [
                {"qas": [{"id": str(i), "answers": [{"text": t} for t in r["references"]]} for i, r in enumerate(rows)]}
            ]
        }
    ]
    want = squad.compute_score(one, {str(i): r["prediction"] for i, r in enumerate(rows)})
    two = [
        {
            "paragraphs": [
                {
                    "qas": [
                        {
                            "id": str(i),
                            "answers": {"text": [] if r["unanswerable"] else r["references"], "answer_start": []},
                        }
                        for i, r in enumerate(rows)
                    ]
                }
            ]
        }
    ]
    has = {str(i): not r["unanswerable"] for i, r in enumerate(rows)}
    preds, probs = (
        {str(i): r["prediction"] for i, r in enumerate(rows)},
        {str(i): r["no_answer"] for i, r in enumerate(rows)},
    )
    exact, f1 = v2.get_raw_scores(two, preds)
    exact_t, f1_t = v2.apply_no_ans_threshold(exact, probs, has, 1.0), v2.apply_no_ans_threshold(f1, probs, has, 1.0)
    out = v2.make_eval_dict(exact_t, f1_t)
    for prefix, keep in (("HasAns", [k for k, v in has.items() if v]), ("NoAns", [k for k, v in has.items() if not v])):
        if keep:
            v2.merge_eval(out, v2.make_eval_dict(exact_t, f1_t, qid_list=keep), prefix)
    v2.find_all_best_thresh(out, preds, exact, f1, probs, has)
    cases.append({"rows": rows, "squad": want, "squad_v2": out})
(here / "squad.json").write_text(json.dumps(cases, indent=0) + "\n")
