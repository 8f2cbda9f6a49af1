"""Writes golden.json with jiwer 4.0.0 and scikit-learn 1.9.1: numbers that this package must repeat.

"hezar" is the loop of hezar 1.0.0's CER (hezar/metrics/cer.py), which collapses spaces before it counts characters.
"""

import json
import pathlib
import random
import warnings

import jiwer
import jiwer.transforms as tr
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

warnings.filterwarnings("ignore")
collapse = tr.Compose(
    [tr.RemoveMultipleSpaces(), tr.Strip(), tr.ReduceToSingleSentence(" "), tr.ReduceToListOfListOfChars()]
)


def hezar(references, predictions):
    incorrect = total = 0
    for r, p in zip(references, predictions, strict=True):
        m = jiwer.process_words(r, p, reference_transform=collapse, hypothesis_transform=collapse)
        incorrect += m.substitutions + m.deletions + m.insertions
        total += m.substitutions + m.deletions + m.hits
    return incorrect / total if total else None


texts = [
    (["hello world"], ["hello world"]),
    (["hello world"], ["helo wurld"]),
    (["abc"], [""]),
    ([""], ["abc"]),
    ([""], [""]),
    (["", "ab"], ["xyz", "ab"]),
    (["  two  spaces "], ["two spaces"]),
    (["a\tb"], ["a b"]),
    (["a\t\tb"], ["a b"]),
    (["a\u00a0b c"], ["a b c"]),
    (["\x1cab\x1f"], ["ab"]),
    (["۱۲ب۳۴۵"], ["۱۲پ۳۴"]),
    (["سلام دنیا"], ["سلام  دنیای من"]),
    (["é"], ["e\u0301"]),
    (["😀😀"], ["😀"]),
    (["kitten", "sunday"], ["sitting", "saturday"]),
    (["the cat sat on the mat"], ["cat the sat mat on"]),
    (["one"], ["one two three four"]),
]
rng = random.Random(1)
for _ in range(12):
    draw = lambda: "".join(rng.choice("ab ب\t ") for _ in range(rng.randrange(12)))
    n = rng.randrange(1, 6)
    texts.append(([draw() for _ in range(n)], [draw() for _ in range(n)]))
golden = {"texts": [], "labels": []}
for references, predictions in texts:
    golden["texts"].append(
        {
            "references": references,
            "predictions": predictions,
            "cer": jiwer.cer(references, predictions),
            "wer": jiwer.wer(references, predictions),
            "hezar": hezar(references, predictions),
        }
    )
labels = [
    ([1, 0, 1, 1], [1, 0, 0, 1]),
    ([0, 0], [0, 0]),
    ([0, 0], [1, 1]),
    ([1, 1], [0, 0]),
    ([0, 1, 2, 2, 5], [0, 2, 1, 2, 2]),
]
for classes in (2, 2, 3, 7):
    n = rng.randrange(20, 40)
    labels.append(([rng.randrange(classes) for _ in range(n)], [rng.randrange(classes) for _ in range(n)]))
for references, predictions in labels:
    entry = {"references": references, "predictions": predictions, "accuracy": accuracy_score(references, predictions)}
    for average in ("binary", "macro", "micro", "weighted"):
        if average == "binary" and max(references + predictions) > 1:
            continue
        p, r, f, _ = precision_recall_fscore_support(references, predictions, average=average, zero_division=0)
        entry[average] = {"precision": p, "recall": r, "f1": f}
    golden["labels"].append(entry)
text = json.dumps(golden, ensure_ascii=True).replace('{"references"', '\n{"references"')
(pathlib.Path(__file__).parent / "golden.json").write_text(text + "\n")
