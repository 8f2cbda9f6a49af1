"""Writes question.json and tokenizer.json: what run_qa.py of transformers' examples makes of questions, and of logits
of them.

TRANSFORMERS names a checkout of github.com/huggingface/transformers with examples/pytorch/question-answering; without
it nothing is written.
"""

import ast
import importlib.util
import json
import os
import random
import sys
import tempfile
import types

here = os.path.dirname(os.path.abspath(__file__))
if "TRANSFORMERS" not in os.environ:
    sys.exit(
        print(
            "question.py: set TRANSFORMERS to a checkout of github.com/huggingface/transformers; question.json stays as it is"
        )
    )
import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

folder = os.path.join(os.environ["TRANSFORMERS"], "examples", "pytorch", "question-answering")
spec = importlib.util.spec_from_file_location("utils_qa", os.path.join(folder, "utils_qa.py"))
utils = importlib.util.module_from_spec(spec)
spec.loader.exec_module(utils)

words = "who won the game super bowl fifty denver broncos beat carolina panthers in 2016 at levi ' s stadium santa clara é ü . , ?".split()
pieces = ["##s", "##ing", "##er", "##é", "un", "##do"]
vocab = {n: i for i, n in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words + pieces)}
made = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
made.normalizer = normalizers.BertNormalizer(strip_accents=False)
made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
made.post_processor = processors.TemplateProcessing(
    single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
)
made.save(os.path.join(here, "tokenizer.json"))
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=made,
    pad_token="[PAD]",
    unk_token="[UNK]",
    cls_token="[CLS]",
    sep_token="[SEP]",
    mask_token="[MASK]",
    model_input_names=["input_ids", "token_type_ids", "attention_mask"],
)

rng = random.Random(5)
examples = []
for i in range(24):
    context = ""
    starts = []
    for _ in range(rng.randint(3, 40)):
        w = rng.choice(words + ["unknown", "gaming", "gameé", "undo", "𝔘", "naïve"])
        starts.append((len(context), w))
        context += w + rng.choice([" ", " ", "  ", "\n", ""])
    answers = []
    for _ in range(rng.randint(0, 2)):
        a = rng.randrange(len(starts))
        b = min(len(starts) - 1, a + rng.randint(0, 3))
        answers.append((starts[a][0], context[starts[a][0] : starts[b][0] + len(starts[b][1])]))
    examples.append(
        {
            "id": str(i),
            "question": rng.choice(["", "  ", "\t"]) + " ".join(rng.choice(words) for _ in range(rng.randint(1, 6))),
            "context": context,
            "answers": {"text": [t for _, t in answers], "answer_start": [s for s, _ in answers]},
        }
    )

MAX, STRIDE = 24, 6
room = {
    "question_column_name": "question",
    "context_column_name": "context",
    "answer_column_name": "answers",
    "pad_on_right": True,
    "tokenizer": tokenizer,
    "max_seq_length": MAX,
    "data_args": types.SimpleNamespace(doc_stride=STRIDE, pad_to_max_length=False),
}
for node in ast.walk(ast.parse(open(os.path.join(folder, "run_qa.py")).read())):  # functions within its main
    if isinstance(node, ast.FunctionDef) and node.name in ("prepare_train_features", "prepare_validation_features"):
        exec(compile(ast.Module([node], []), "run_qa.py", "exec"), room)
columns = lambda: {k: [e[k] for e in examples] for k in examples[0]}
train, valid = room["prepare_train_features"](columns()), room["prepare_validation_features"](columns())
features = [
    {"example_id": valid["example_id"][i], "offset_mapping": valid["offset_mapping"][i]}
    for i in range(len(valid["input_ids"]))
]
out = []
for i, f in enumerate(features):
    out.append(
        {
            "example": int(f["example_id"]),
            "input_ids": train["input_ids"][i],
            "token_type_ids": train["token_type_ids"][i],
            "start": train["start_positions"][i],
            "end": train["end_positions"][i],
            "offsets": [list(o) if o else None for o in f["offset_mapping"]],
        }
    )


class Table(list):
    def __getitem__(self, k):
        return [e[k] for e in self] if isinstance(k, str) else list.__getitem__(self, k)


numbers = np.random.default_rng(3)
start, end = (numbers.normal(size=(len(features), MAX)).astype(np.float32) for _ in range(2))
chosen = []
for settings in (
    {},
    dict(n_best_size=5, max_answer_length=4),
    dict(version_2_with_negative=True),
    dict(version_2_with_negative=True, n_best_size=3, null_score_diff_threshold=-1.5),
    dict(version_2_with_negative=True, n_best_size=2, max_answer_length=1),
):
    with tempfile.TemporaryDirectory() as folder:
        best = utils.postprocess_qa_predictions(Table(examples), features, (start, end), output_dir=folder, **settings)
        name = next(n for n in os.listdir(folder) if "nbest" in n)
        chosen.append(
            {
                "settings": settings,
                "best": [best[str(i)] for i in range(len(examples))],
                "all": [json.load(open(os.path.join(folder, name)))[str(i)] for i in range(len(examples))],
            }
        )
with open(os.path.join(here, "question.json"), "w") as f:
    json.dump(
        {
            "max_length": MAX,
            "stride": STRIDE,
            "examples": examples,
            "features": out,
            "start": start.tolist(),
            "end": end.tolist(),
            "answers": chosen,
        },
        f,
    )
    f.write("\n")
