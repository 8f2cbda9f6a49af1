"""Golden values from sentence-transformers: python crossencoder.py writes crossencoder.safetensors, crossencoder.json
and the folder saved beside it.

For each encoder, whose weights come from seed 42, with a head drawn from seed 1: what predict makes of pairs. For each
loss: a pass in training mode with every gradient, and 20 updates of CrossEncoderTrainer over shuffled ragged texts.
The numbers of each evaluator. Tensors are stored by the first 8 digits of their sha256, but for predictions and losses.
saved is a folder that save_pretrained wrote.

Needs sentence-transformers 6.2.0 with transformers 5.17.0, torch 2.11.0, datasets, accelerate, scipy and scikit-learn.
"""

import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[2] / "scripts/golden"))
import pins  # noqa: E402, F401  # first, since it chooses the code paths of libtorch

import sentence_transformers
import torch
import transformers
from accelerate import Accelerator
from datasets import Dataset
from goldenfile import save_file
from sentence_transformers import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder import losses
from sentence_transformers.cross_encoder.evaluation import (
    CrossEncoderClassificationEvaluator,
    CrossEncoderCorrelationEvaluator,
    CrossEncoderRerankingEvaluator,
)
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModel, PreTrainedTokenizerFast

torch.set_num_threads(1)
VOCAB, HIDDEN = 60, 32
SIZES = dict(
    num_hidden_layers=2, num_attention_heads=4, hidden_size=HIDDEN, intermediate_size=48, max_position_embeddings=40
)
ENCODERS = {  # class prefix: settings, padding id, whether there are token types
    "Bert": (SIZES, 0, True),
    "Roberta": (SIZES, 1, False),
    "DistilBert": (dict(n_layers=2, n_heads=4, dim=HIDDEN, hidden_dim=48, max_position_embeddings=40), 0, False),
    "MPNet": (SIZES, 1, False),
    "Electra": (dict(SIZES, embedding_size=16), 0, True),
    "ModernBert": (
        dict(
            SIZES,
            local_attention=8,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
            cls_token_id=2,
            sep_token_id=3,
            attention_dropout=0.1,
            mlp_dropout=0.1,
        ),
        0,
        False,
    ),
    "Llama": (
        dict(
            hidden_size=HIDDEN,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=40,
            pad_token_id=0,
            bos_token_id=2,
            eos_token_id=3,
        ),
        0,
        False,
    ),
}
tensors, out = {}, dict(encoders=[], losses=[], runs=[])
folder = tempfile.mkdtemp()


def sha(t):
    return hashlib.sha256(t.detach().contiguous().numpy().tobytes()).hexdigest()[:8]


def state():
    return sha(torch.get_rng_state())


def sentence(g, most):
    return " ".join(
        f"w{int(i)}" for i in torch.randint(5, VOCAB, (int(torch.randint(1, most + 1, (), generator=g)),), generator=g)
    )


g = torch.Generator().manual_seed(1)
# no two pairs of the same length, since argsort of numpy does not say which of them comes first
PAIRS = list({len(a) + len(b): [a, b] for a, b in ((sentence(g, 9), sentence(g, 9)) for _ in range(60))}.values())[:11]
ROWS = []
for _ in range(48):
    documents = [sentence(g, 12) for _ in range(1 + int(torch.randint(2, 5, (), generator=g)))]
    ROWS.append(
        dict(
            query=sentence(g, 8),
            documents=documents,
            labels=[round(float(torch.rand((), generator=g)) * 4) / 2 for _ in documents],
            score=round(float(torch.rand((), generator=g)), 3),
            label=int(torch.randint(0, 2, (), generator=g)),
            kind=int(torch.randint(0, 3, (), generator=g)),
        )
    )
out["pairs"], out["rows"] = PAIRS, ROWS


def base(prefix):
    """A folder with an encoder drawn from seed 42, and its tokenizer."""
    sizes, pad, typed = ENCODERS[prefix]
    path = os.path.join(folder, prefix)
    if os.path.exists(path):
        return path
    names = (
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] if pad == 0 else ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
    )
    vocab = {n: i for i, n in enumerate(names + [f"w{i}" for i in range(5, VOCAB)])}
    t = Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    t.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1" if pad == 0 else "[CLS] $A [SEP] [SEP] $B [SEP]",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    inputs = ["input_ids", "token_type_ids", "attention_mask"] if typed else ["input_ids", "attention_mask"]
    tok = PreTrainedTokenizerFast(
        tokenizer_object=t,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_input_names=inputs,
    )
    torch.manual_seed(42)
    model = AutoModel.from_config(getattr(transformers, prefix + "Config")(vocab_size=VOCAB, **sizes))
    model.save_pretrained(path)
    tok.save_pretrained(path)
    out["encoders"].append(
        dict(
            name=prefix,
            config=json.load(open(path + "/config.json")),
            tokenizer=json.load(open(path + "/tokenizer.json")),
            tokenizer_config=json.load(open(path + "/tokenizer_config.json")),
        )
    )
    return path


def model(prefix, labels=None, **o):
    path = base(prefix)
    torch.manual_seed(1)
    return CrossEncoder(path, num_labels=labels, device="cpu", **o)


def predict(name, m, pairs=PAIRS, **o):
    tensors[name] = torch.from_numpy(m.predict(pairs, batch_size=4, **o))


for prefix in ENCODERS:
    m = model(prefix)
    out["encoders"][-1] |= dict(
        parameters=[n.removeprefix("0.model.") for n, _ in m.named_parameters()],
        initial=[sha(p) for p in m.parameters()],
        generator=state(),
    )
    predict(prefix, m)
    predict(prefix + ", logits", m, activation_fn=torch.nn.Identity())
    predict(prefix + ", prompt", m, prompt="w7 w8 ")
    m.max_seq_length = 9
    predict(prefix + ", cut", m)
    m = model(prefix, 3)
    predict(prefix + ", classes", m)
    predict(prefix + ", softmax", m, apply_softmax=True)

PAIR, TRIPLET, NTUPLE = ["a"], ["a", "b"], ["a", "b", "c"]
LISTS = "lists"
LOSSES = {  # the documents of a row, its label, the labels of the model, and the loss
    "BinaryCrossEntropyLoss": (PAIR, "label", 1, losses.BinaryCrossEntropyLoss),
    "BinaryCrossEntropyLoss, weighted": (
        PAIR,
        "score",
        1,
        lambda m: losses.BinaryCrossEntropyLoss(m, activation_fn=torch.nn.Tanh(), pos_weight=torch.tensor(4.0)),
    ),
    "CrossEntropyLoss": (PAIR, "kind", 3, losses.CrossEntropyLoss),
    "MSELoss": (PAIR, "score", 1, losses.MSELoss),
    "MSELoss, sigmoid": (PAIR, "score", 1, lambda m: losses.MSELoss(m, activation_fn=torch.nn.Sigmoid())),
    "MarginMSELoss": (TRIPLET, "score", 1, losses.MarginMSELoss),
    "MarginMSELoss, differences": (NTUPLE, "labels[1:]", 1, losses.MarginMSELoss),
    "MarginMSELoss, scores": (
        NTUPLE,
        "labels[:3]",
        1,
        lambda m: losses.MarginMSELoss(m, activation_fn=torch.nn.Sigmoid()),
    ),
    "MultipleNegativesRankingLoss": (PAIR, None, 1, losses.MultipleNegativesRankingLoss),
    "MultipleNegativesRankingLoss of n-tuples": (
        NTUPLE,
        None,
        1,
        lambda m: losses.MultipleNegativesRankingLoss(m, num_negatives=3, scale=7.5),
    ),
    "MultipleNegativesRankingLoss, all negatives": (
        TRIPLET,
        None,
        1,
        lambda m: losses.MultipleNegativesRankingLoss(m, num_negatives=None, activation_fn=torch.nn.Identity()),
    ),
    "CachedMultipleNegativesRankingLoss": (
        PAIR,
        None,
        1,
        lambda m: losses.CachedMultipleNegativesRankingLoss(m, mini_batch_size=4),
    ),
    "CachedMultipleNegativesRankingLoss of n-tuples": (
        NTUPLE,
        None,
        1,
        lambda m: losses.CachedMultipleNegativesRankingLoss(m, num_negatives=3, scale=7.5, mini_batch_size=5),
    ),
    "ListNetLoss": (LISTS, "labels", 1, losses.ListNetLoss),
    "ListNetLoss, tanh": (
        LISTS,
        "labels",
        1,
        lambda m: losses.ListNetLoss(m, activation_fn=torch.nn.Tanh(), mini_batch_size=5),
    ),
    "LambdaLoss": (LISTS, "labels", 1, losses.LambdaLoss),
    "LambdaLoss, NDCGLoss1Scheme": (LISTS, "labels", 1, lambda m: losses.LambdaLoss(m, losses.NDCGLoss1Scheme(), k=2)),
    "LambdaLoss, NDCGLoss2Scheme": (
        LISTS,
        "labels",
        1,
        lambda m: losses.LambdaLoss(m, losses.NDCGLoss2Scheme(), sigma=0.7, mini_batch_size=-1),
    ),
    "LambdaLoss, LambdaRankScheme": (
        LISTS,
        "labels",
        1,
        lambda m: losses.LambdaLoss(m, losses.LambdaRankScheme(), k=3, reduction_log="natural"),
    ),
    "LambdaLoss, sigmoid": (
        LISTS,
        "labels",
        1,
        lambda m: losses.LambdaLoss(m, losses.NDCGLoss2PPScheme(mu=5), activation_fn=torch.nn.Sigmoid()),
    ),
    "RankNetLoss": (LISTS, "labels", 1, losses.RankNetLoss),
}


def label(kind, row):
    name, _, cut = kind.partition("[")
    if cut == "1:]":
        return row[name][1:3]
    return row[name][:3] if cut else row[name]


def columns(documents, rows):
    if documents == LISTS:
        return dict(query=[r["query"] for r in rows], docs=[r["documents"] for r in rows])
    return dict(query=[r["query"] for r in rows]) | {
        c: [r["documents"][k] for r in rows] for k, c in enumerate(documents)
    }


def labels_of(kind, rows):
    values = [label(kind, r) for r in rows]
    return [torch.tensor(v) for v in values] if isinstance(values[0], list) else torch.tensor(values)


def grads(m):
    return [sha(p.grad) if p.grad is not None else "" for p in m.parameters()]


def one_pass(name, m, loss, documents, kind, prompt=None):
    m.train()
    torch.manual_seed(7)
    value = loss(list(columns(documents, ROWS[:6]).values()), labels_of(kind, ROWS[:6]) if kind else None, prompt)
    value.backward()
    tensors["loss." + name] = value.detach()
    out["losses"].append(
        dict(
            name=name,
            grads=grads(m),
            norms=[float(f"{p.grad.double().norm():.6g}") if p.grad is not None else 0 for p in m.parameters()],
            generator=state(),
        )
    )


def common(documents, kind, labels):
    return dict(documents=0 if documents == LISTS else len(documents), label=kind or "", labels=labels)


for name, (documents, kind, labels, make) in LOSSES.items():
    m = model("Bert", labels)
    one_pass(name, m, make(m), documents, kind)
    out["losses"][-1] |= common(documents, kind, labels)
# in bf16 with the outputs in float32, as the Trainer has them
m = Accelerator(mixed_precision="bf16", cpu=True).prepare(model("Bert"))
one_pass("bf16", m, losses.MSELoss(m, activation_fn=torch.nn.Sigmoid()), PAIR, "score", "w9 ")
out["losses"][-1] |= common(PAIR, "score", 1)

RUNS = [  # encoder, loss, accumulation, prompt
    ("Bert", "BinaryCrossEntropyLoss", 1, None),
    ("Roberta", "MSELoss", 2, "w7 w8 "),
    ("DistilBert", "CrossEntropyLoss", 1, None),
    ("MPNet", "MarginMSELoss, scores", 1, None),
    ("Electra", "MultipleNegativesRankingLoss of n-tuples", 1, "w9 "),
    ("ModernBert", "LambdaLoss", 1, None),
    ("Llama", "ListNetLoss", 1, None),
    ("Bert", "MultipleNegativesRankingLoss", 1, None),
    ("Roberta", "CachedMultipleNegativesRankingLoss of n-tuples", 2, None),
]
for prefix, name, accumulate, prompt in RUNS:
    documents, kind, labels, make = LOSSES[name]
    m = model(prefix, labels)
    args = CrossEncoderTrainingArguments(
        output_dir=os.path.join(folder, "run"),
        report_to=[],
        use_cpu=True,
        max_steps=20,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
        gradient_accumulation_steps=accumulate,
        prompts=prompt,
    )
    data = columns(documents, ROWS) | ({"label": [label(kind, r) for r in ROWS]} if kind else {})
    t = CrossEncoderTrainer(model=m, args=args, train_dataset=Dataset.from_dict(data), loss=make(m))
    t.train()
    log = [r for r in t.state.log_history if "loss" in r]
    out["runs"].append(
        dict(
            encoder=prefix,
            loss=name,
            accumulate=accumulate,
            prompt=prompt or "",
            losses=[r["loss"].hex() for r in log],
            grad_norms=[float(r["grad_norm"]).hex() for r in log],
            final=[sha(p) for p in m.parameters()],
            generator=state(),
        )
        | common(documents, kind, labels)
    )


def spread(labels=None):
    """A model whose scores are far apart."""
    m = model("Bert", labels)
    with torch.no_grad():
        for p in m.parameters():
            p.mul_(4)
    return m


m = spread()
first = [[r["query"], r["documents"][0]] for r in ROWS]
samples = []
for i, r in enumerate(ROWS[:16]):
    s = dict(query=r["query"], positive=r["documents"][:1])
    if i % 3 == 0:
        s["documents"] = r["documents"][1:] + (r["documents"][:1] if i % 2 else ROWS[i + 1]["documents"])
    elif i % 3 == 1:
        s |= dict(positive=r["documents"][:2], documents=r["documents"][1:] + ROWS[i + 1]["documents"])
    else:
        s |= dict(positive=r["documents"][:2], negative=r["documents"][2:])
    samples.append(s)
out["samples"] = samples
ranked = samples[0::3] + samples[1::3]
out["evaluators"] = {
    "binary": CrossEncoderClassificationEvaluator(
        first, [r["label"] for r in ROWS], name="dev", batch_size=7, write_csv=False
    )(m),
    "correlation": CrossEncoderCorrelationEvaluator(first, [r["score"] for r in ROWS], write_csv=False)(m),
    "reranking": CrossEncoderRerankingEvaluator(samples, write_csv=False)(m),
    "reranking of documents": CrossEncoderRerankingEvaluator(
        ranked, at_k=3, always_rerank_positives=False, name="dev", write_csv=False
    )(m),
    "classes": CrossEncoderClassificationEvaluator(first, [r["kind"] for r in ROWS], write_csv=False)(spread(3)),
}
out["ranking"] = m.rank(ROWS[0]["query"], [r["documents"][0] for r in ROWS], top_k=5, return_documents=True)

shutil.rmtree(here / "saved", ignore_errors=True)
m = model("DistilBert", activation_fn=torch.nn.Tanh(), max_length=11)
m.prompts, m.default_prompt_name = {"query": "w20 w21 "}, "query"
m.save_pretrained(str(here / "saved"), create_model_card=False)
predict("saved", m)

versions = {
    "made with": f"torch {torch.__version__}, transformers {transformers.__version__}, "
    f"sentence-transformers {sentence_transformers.__version__}"
}
save_file({k: v.contiguous() for k, v in tensors.items()}, str(here / "crossencoder.safetensors"), metadata=versions)
with open(here / "crossencoder.json", "w") as f:
    json.dump(out, f, indent=0, default=float)
    f.write("\n")
shutil.rmtree(folder)
