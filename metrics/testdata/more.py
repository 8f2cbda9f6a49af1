"""Writes more.json with scikit-learn 1.9.1, SciPy 1.17.1, seqeval 1.2.2, rouge_score 0.1.2, NLTK and sacrebleu: numbers
that this package must repeat.
"""

import json
import math
import pathlib
import random
import warnings

import numpy as np
import sacrebleu
from nltk.stem.porter import PorterStemmer
from nltk.translate.bleu_score import SmoothingFunction, corpus_bleu
from rouge_score.rouge_scorer import RougeScorer
from scipy.stats import pearsonr, spearmanr
from seqeval.metrics import accuracy_score as tag_accuracy
from seqeval.metrics import classification_report
from seqeval.scheme import BILOU, IOB1, IOB2, IOBES, IOE1, IOE2
from sklearn import metrics as sk

warnings.filterwarnings("ignore")
rng = random.Random(7)
out = {}

# classes with zero_division and a list of labels
out["classes"] = []
for trial in range(12):
    n, k = rng.randrange(3, 30), rng.randrange(2, 6)
    y, p = [rng.randrange(k) for _ in range(n)], [rng.randrange(k + 1) for _ in range(n)]
    labels = rng.choice([None, [0, 1], [2, 0, 9]])
    e = {
        "references": y,
        "predictions": p,
        "labels": labels,
        "mcc": sk.matthews_corrcoef(y, p),
        "confusion": sk.confusion_matrix(y, p).tolist(),
        "scores": [],
    }
    for average in ("macro", "micro", "weighted"):
        for zero in (0.0, 1.0, math.nan):
            r = sk.precision_recall_fscore_support(y, p, average=average, zero_division=zero, labels=labels)
            e["scores"].append(
                {
                    "average": average,
                    "zero": "nan" if math.isnan(zero) else str(zero),
                    "values": ["nan" if math.isnan(x) else float(x) for x in r[:3]],
                }
            )
    e["each"] = [
        [float(a) for a in row]
        for row in zip(*sk.precision_recall_fscore_support(y, p, labels=labels, zero_division=0))
    ]
    out["classes"].append(e)

# numbers
out["numbers"] = []
for n, shift in ((2, 0), (5, 0), (40, 0), (200, 1e6)):
    y = [shift + rng.gauss(0, 1) for _ in range(n)]
    p = [v + rng.gauss(0, 0.5) for v in y]
    if n == 40:
        y, p = [round(v, 0) for v in y], [round(v, 0) for v in p]  # ties
    out["numbers"].append(
        {
            "references": y,
            "predictions": p,
            "mae": sk.mean_absolute_error(y, p),
            "mse": sk.mean_squared_error(y, p),
            "rmse": sk.root_mean_squared_error(y, p),
            "r2": sk.r2_score(y, p),
            "pearson": float(pearsonr(p, y)[0]),
            "spearman": float(spearmanr(p, y)[0]),
        }
    )

# scores
out["scores"] = []
for n, k in ((30, 2), (50, 2), (40, 3), (60, 5)):
    y = [i % k for i in range(n)]
    s = np.array([[round(rng.random(), 1 if n == 50 else 6) for _ in range(k)] for _ in range(n)])
    s = s / s.sum(1, keepdims=True)
    e = {"labels": y, "scores": s.tolist()}
    if k == 2:
        e["auc"] = e["auc_weighted"] = sk.roc_auc_score(y, s[:, 1])
    else:
        e["auc"] = sk.roc_auc_score(y, s, multi_class="ovr")
        e["auc_weighted"] = sk.roc_auc_score(y, s, multi_class="ovr", average="weighted")
    e["top"] = {
        str(t): sk.top_k_accuracy_score(y, s, k=t, labels=range(k)) if k > 2 else sk.accuracy_score(y, s.argmax(1))
        for t in (range(1, k) if k > 2 else [])
    }
    out["scores"].append(e)

# entities
out["entities"] = []
schemes = {"any": None, "IOB1": IOB1, "IOB2": IOB2, "IOE1": IOE1, "IOE2": IOE2, "IOBES": IOBES, "BILOU": BILOU}
marks = {"any": "IOBES", "IOB1": "IOB", "IOB2": "IOB", "IOE1": "IOE", "IOE2": "IOE", "IOBES": "IOBES", "BILOU": "BILOU"}
for name, scheme in schemes.items():
    for suffix in (False, True):

        def tag():
            m = rng.choice(marks[name])
            t = rng.choice(["PER", "LOC"])
            return "O" if m == "O" else (f"{t}-{m}" if suffix else f"{m}-{t}")

        lengths = [rng.randrange(1, 25) for _ in range(15)]
        y = [[tag() for _ in range(n)] for n in lengths]
        p = [[t if rng.random() < 0.8 else tag() for t in row] for row in y]
        kw = {"mode": "strict", "scheme": scheme} if scheme else {}
        r = classification_report(y, p, suffix=suffix, output_dict=True, zero_division=0, **kw)
        m = r["micro avg"]
        out["entities"].append(
            {
                "scheme": name,
                "suffix": suffix,
                "references": y,
                "predictions": p,
                "accuracy": tag_accuracy(y, p),
                "precision": float(m["precision"]),
                "recall": float(m["recall"]),
                "f1": float(m["f1-score"]),
                "types": {
                    t: [float(v["precision"]), float(v["recall"]), float(v["f1-score"]), int(v["support"])]
                    for t, v in r.items()
                    if "avg" not in t
                },
            }
        )

# summaries
vocabulary = "the a cat cats dog running runs ran quickly relational conditional happiness happily flying flies skies it's e-mail 3.5 stem stemming connected connection".split()
text = lambda n: " ".join(rng.choice(vocabulary) for _ in range(n)).replace(" a ", ".\n")
out["summaries"] = []
for stemmer in (False, True):
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL", "rougeLsum"], use_stemmer=stemmer)
    for _ in range(12):
        p = rng.choice([text(rng.randrange(1, 30)), "", "!!"]) if rng.random() < 0.2 else text(rng.randrange(1, 40))
        refs = [text(rng.randrange(0, 40)) for _ in range(rng.randrange(1, 4))]
        s = scorer.score_multi(refs, p)
        out["summaries"].append(
            {
                "stemmer": stemmer,
                "prediction": p,
                "references": refs,
                "scores": {k: [float(v.precision), float(v.recall), float(v.fmeasure)] for k, v in s.items()},
            }
        )

words = """caresses ponies ties caress cats feed agreed plastered bled motoring sing conflated troubled sized hopping tanned falling hissing fizzed failing filing happy sky enjoy
relational conditional rational valenci hesitanci digitizer conformabli radicalli differentli vileli analogousli vietnamization predication operator feudalism decisiveness hopefulness
callousness formaliti sensitiviti sensibiliti triplicate formative formalize electriciti electrical hopeful goodness revival allowance inference airliner gyroscopic adjustable defensible
irritant replacement adjustment dependent adoption homologou communism activate angulariti homologous effective bowdlerize probate rate cease controll roll dies died spied flies dying
news innings geology archaeology theologi yellow yyyy syzygy toy say spy cry b2b 1980s being seeing oaten ed ing ion lion million hopefulli""".split()
out["stems"] = {w: PorterStemmer().stem(w) for w in words}

# translations
out["translations"] = []
base = 'the quick brown fox , jumped over the lazy dog . it\'s 3.5 metres - or 4,000 mm & more in 1999-2000 "quoted" <tag> end'.split()
sm = SmoothingFunction()
for trial in range(10):
    refs, hyps = [], []
    for _ in range(rng.randrange(1, 6)):
        r = [[rng.choice(base) for _ in range(rng.randrange(6, 20))] for _ in range(2)]
        h = [w if rng.random() < (0.75 if trial < 7 else 0.15) else rng.choice(base) for w in r[0]]
        refs.append([" ".join(x) for x in r])
        hyps.append(" ".join(h[: rng.randrange(5, len(h) + 1)]))
    e = {"references": refs, "predictions": hyps}
    split = [[r.split() for r in rs] for rs in refs], [h.split() for h in hyps]
    e["nltk"] = {
        "none": corpus_bleu(*split),
        "floor": corpus_bleu(*split, smoothing_function=sm.method1),
        "add-k": corpus_bleu(*split, smoothing_function=sm.method2),
        "exp": corpus_bleu(*split, smoothing_function=sm.method3),
        "bigrams": corpus_bleu(*split, weights=(0.5, 0.5)),
    }
    streams = [list(x) for x in zip(*refs)]
    e["sacrebleu"] = {
        m: sacrebleu.corpus_bleu(hyps, streams, smooth_method=m).score / 100 for m in ("none", "floor", "add-k", "exp")
    }
    e["effective"] = sacrebleu.sentence_bleu(hyps[0], refs[0]).score / 100
    full = sacrebleu.corpus_bleu(hyps, streams)
    e["precisions"], e["penalty"], e["ratio"] = [p / 100 for p in full.precisions], full.bp, full.sys_len / full.ref_len
    out["translations"].append(e)
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

lines = [
    " ".join(base),
    "a,b 1,2 ,3 4. .5 x.",
    "&quot;a&amp;lt;b&quot; <skipped>c-\nd\ne",
    "{x}[y]`z~ (a)*b+c/d@e:f;g",
    "سلام، دنیا. ۱۲",
    "5-4 a-b -",
    "",
]
out["tokens13a"] = [[l, Tokenizer13a()(l).split()] for l in lines]
text = json.dumps(out, ensure_ascii=True).replace(', {"', ',\n{"')
(pathlib.Path(__file__).parent / "more.json").write_text(text + "\n")
