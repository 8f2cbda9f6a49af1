"""Golden values from sentence-transformers: python sentence.py writes sentence.safetensors, sentence.json and the
folder saved beside it.

For each encoder, whose weights come from seed 42: what encode makes of texts in every mode of pooling, with prompts and
modules behind it. For each loss: a pass in training mode with every gradient, and 20 updates of
SentenceTransformerTrainer over shuffled ragged texts. Tensors are stored by the first 8 digits of their sha256, but
for embeddings and losses. saved is a folder that save_pretrained wrote.

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
from datasets import Dataset
from goldenfile import save_file
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    losses,
)
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
    TripletEvaluator,
)
from sentence_transformers.sentence_transformer.losses.contrastive import SiameseDistanceMetric
from sentence_transformers.sentence_transformer.losses.triplet import TripletDistanceMetric
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from sentence_transformers.util import (
    dot_score,
    euclidean_sim,
    manhattan_sim,
    pairwise_dot_score,
    pairwise_euclidean_sim,
    pairwise_manhattan_sim,
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
}
MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
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
# no two of the same length, since argsort of numpy does not say which of them comes first
TEXTS = list({len(s): s for s in (sentence(g, 12) for _ in range(40))}.values())[:9]
ROWS = [
    [sentence(g, 12) for _ in range(4)]
    + [round(float(torch.rand((), generator=g)), 3), int(torch.randint(0, 2, (), generator=g))]
    for _ in range(48)
]
TARGETS = torch.randn(48, HIDDEN, generator=g)
out["texts"], out["rows"] = TEXTS, [dict(texts=r[:4], score=r[4], label=r[5]) for r in ROWS]
tensors["targets"] = TARGETS


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
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])]
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
            parameters=[n for n, _ in model.named_parameters()],
            initial=[sha(p) for p in model.parameters()],
            cases=[],
        )
    )
    return path


def dense(seed, *sizes, **o):
    torch.manual_seed(seed)
    return Dense(*sizes, **o)


def model(prefix, pooling="mean", modules=(), **o):
    return SentenceTransformer(
        modules=[Transformer(base(prefix)), Pooling(HIDDEN, pooling, **o), *modules], device="cpu"
    )


def encode(prefix, name, m, **o):
    case = dict(name=name)
    tensors[f"{prefix}, {name}"] = torch.from_numpy(m.encode(TEXTS, batch_size=4, **o))
    out["encoders"][-1]["cases"].append(case)


for prefix in ENCODERS:
    for mode in MODES:
        m = model(prefix, mode)
        encode(prefix, mode, m)
        m = model(prefix, mode, include_prompt=False)
        encode(prefix, mode + " without prompt", m, prompt="w7 w8 w9 ")
    m = model(
        prefix,
        ("mean", "cls", "max"),
        [
            dense(3, 3 * HIDDEN, 16),
            Normalize(),
            dense(4, 16, 16, activation_function=torch.nn.GELU(), use_residual=True),
        ],
    )
    encode(prefix, "modules", m)
    m.max_seq_length = 6
    encode(prefix, "cut", m, truncate_dim=7, normalize_embeddings=True, prompt="w10 ")

m = model("Bert")
a, b = tensors["Bert, mean"][:4], tensors["Bert, mean"][4:]
for name in ("cosine", "dot", "euclidean", "manhattan"):
    m.similarity_fn_name = name
    tensors["similarity." + name] = m.similarity(a, b)
    tensors["pairwise." + name] = m.similarity_pairwise(a, b[:4])

# losses: which texts of a row, its label, and the loss of a model
TRIPLET, PAIR, NTUPLE = ["a", "b", "c"], ["a", "b"], ["a", "b", "c", "d"]
LOSSES = {
    "MultipleNegativesRankingLoss": (PAIR, None, losses.MultipleNegativesRankingLoss),
    "MultipleNegativesRankingLoss of triplets": (TRIPLET, None, losses.MultipleNegativesRankingLoss),
    "MultipleNegativesRankingLoss of n-tuples": (
        NTUPLE,
        None,
        lambda m: losses.MultipleNegativesRankingLoss(m, scale=7.5),
    ),
    "MultipleNegativesRankingLoss, dot": (
        TRIPLET,
        None,
        lambda m: losses.MultipleNegativesRankingLoss(m, scale=1, similarity_fct=dot_score),
    ),
    "MultipleNegativesRankingLoss, manhattan": (
        TRIPLET,
        None,
        lambda m: losses.MultipleNegativesRankingLoss(m, scale=1, similarity_fct=manhattan_sim),
    ),
    "MultipleNegativesRankingLoss, symmetric": (
        TRIPLET,
        None,
        lambda m: losses.MultipleNegativesRankingLoss(
            m, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
        ),
    ),
    "MultipleNegativesRankingLoss, all directions": (
        TRIPLET,
        None,
        lambda m: losses.MultipleNegativesRankingLoss(
            m, directions=("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
        ),
    ),
    "CosineSimilarityLoss": (PAIR, "score", losses.CosineSimilarityLoss),
    "CoSENTLoss": (PAIR, "score", losses.CoSENTLoss),
    "CoSENTLoss with ties": (PAIR, "tied", lambda m: losses.CoSENTLoss(m, scale=5, similarity_fct=pairwise_dot_score)),
    "CoSENTLoss, euclidean": (
        PAIR,
        "score",
        lambda m: losses.CoSENTLoss(m, scale=1, similarity_fct=pairwise_euclidean_sim),
    ),
    "TripletLoss": (TRIPLET, None, losses.TripletLoss),
    "TripletLoss, cosine": (TRIPLET, None, lambda m: losses.TripletLoss(m, TripletDistanceMetric.COSINE, 0.3)),
    "TripletLoss, manhattan": (TRIPLET, None, lambda m: losses.TripletLoss(m, TripletDistanceMetric.MANHATTAN, 1)),
    "ContrastiveLoss": (PAIR, "label", losses.ContrastiveLoss),
    "ContrastiveLoss, euclidean": (
        PAIR,
        "label",
        lambda m: losses.ContrastiveLoss(m, SiameseDistanceMetric.EUCLIDEAN, 2, size_average=False),
    ),
    "ContrastiveLoss, manhattan": (
        PAIR,
        "label",
        lambda m: losses.ContrastiveLoss(m, SiameseDistanceMetric.MANHATTAN, 20),
    ),
    "MSELoss": (PAIR, "target", losses.MSELoss),
    "MatryoshkaLoss": (
        TRIPLET,
        None,
        lambda m: losses.MatryoshkaLoss(m, losses.MultipleNegativesRankingLoss(m), [8, 32, 16], [0.5, 1, 2]),
    ),
    "MatryoshkaLoss of CoSENTLoss": (PAIR, "score", lambda m: losses.MatryoshkaLoss(m, losses.CoSENTLoss(m), [32, 8])),
    "MatryoshkaLoss of MSELoss": (PAIR, "target", lambda m: losses.MatryoshkaLoss(m, losses.MSELoss(m), [32, 8])),
}


def label(kind, i):
    return {"score": ROWS[i][4], "tied": round(ROWS[i][4] * 2) / 2, "label": ROWS[i][5], "target": TARGETS[i].tolist()}[
        kind
    ]


def dataset(columns, kind):
    rows = [
        {c: r[k] for k, c in enumerate(columns)} | ({"label": label(kind, i)} if kind else {})
        for i, r in enumerate(ROWS)
    ]
    return Dataset.from_list(rows)


def grads(m):
    return [sha(p.grad) if p.grad is not None else "" for p in m.parameters()]


for name, (columns, kind, make) in LOSSES.items():
    m = model("Bert")
    loss = make(m)
    features = [m.preprocess([r[k] for r in ROWS[:6]]) for k in range(len(columns))]
    labels = torch.tensor([label(kind, i) for i in range(6)]) if kind else None
    m.train()
    torch.manual_seed(7)
    value = loss(features, labels)
    value.backward()
    tensors["loss." + name] = value.detach()
    out["losses"].append(
        dict(
            name=name,
            texts=len(columns),
            label=kind or "",
            grads=grads(m),
            norms=[float(f"{p.grad.double().norm():.6g}") if p.grad is not None else 0 for p in m.parameters()],
            generator=state(),
        )
    )

RUNS = [  # encoder, pooling, modules, loss, accumulation, prompts
    ("Bert", "mean", lambda: [], "MultipleNegativesRankingLoss of triplets", 1, None),
    ("Roberta", "cls", lambda: [], "CoSENTLoss", 1, None),
    ("DistilBert", "max", lambda: [], "TripletLoss", 2, None),
    ("MPNet", ("mean", "lasttoken"), lambda: [dense(3, 2 * HIDDEN, HIDDEN), Normalize()], "MatryoshkaLoss", 1, None),
    ("ModernBert", "weightedmean", lambda: [Normalize()], "CosineSimilarityLoss", 1, None),
    (
        "Bert",
        "mean_sqrt_len_tokens",
        lambda: [],
        "MultipleNegativesRankingLoss of n-tuples",
        1,
        {"a": "w11 ", "b": "w12 w13 ", "c": "w12 w13 ", "d": "w12 w13 "},
    ),
    ("Roberta", "mean", lambda: [], "ContrastiveLoss", 1, {"a": "w11 ", "b": "w12 w13 "}),
    (
        "Bert",
        "mean",
        lambda: [],
        "MultipleNegativesRankingLoss, symmetric",
        1,
        {"a": "w11 ", "b": "w12 ", "c": "w12 w13 "},
    ),
]
for prefix, pooling, modules, name, accumulate, prompts in RUNS:
    columns, kind, make = LOSSES[name]
    m = model(prefix, pooling, modules(), include_prompt=not prompts or "d" in prompts)
    args = SentenceTransformerTrainingArguments(
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
        prompts=prompts,
    )
    t = SentenceTransformerTrainer(model=m, args=args, train_dataset=dataset(columns, kind), loss=make(m))
    t.train()
    log = [r for r in t.state.log_history if "loss" in r]
    out["runs"].append(
        dict(
            encoder=prefix,
            pooling=[pooling] if isinstance(pooling, str) else list(pooling),
            dense=prefix == "MPNet",
            normalize=prefix in ("MPNet", "ModernBert"),
            loss=name,
            texts=len(columns),
            label=kind or "",
            accumulate=accumulate,
            prompts=[prompts[c] for c in columns] if prompts else None,
            exclude_prompt=not m[1].include_prompt,
            losses=[r["loss"].hex() for r in log],
            grad_norms=[float(r["grad_norm"]).hex() for r in log],
            parameters=[n for n, _ in m.named_parameters()],
            final=[sha(p) for p in m.parameters()],
            generator=state(),
        )
    )

m = model("Bert")
names = ["cosine", "dot", "euclidean", "manhattan"]
out["similarity_evaluator"] = EmbeddingSimilarityEvaluator(
    [r[0] for r in ROWS],
    [r[1] for r in ROWS],
    [r[4] for r in ROWS],
    similarity_fn_names=names,
    name="dev",
    write_csv=False,
)(m)
m.prompts = {"query": "w20 w21 ", "document": "w22 "}
out["triplet_evaluator"] = TripletEvaluator(
    [r[0] for r in ROWS],
    [r[1] for r in ROWS],
    [r[2] for r in ROWS],
    similarity_fn_names=names,
    margin={"cosine": 0.01},
    write_csv=False,
)(m)
queries = {f"q{i}": r[0] for i, r in enumerate(ROWS[:12])}
corpus = {f"d{i}": r[1] for i, r in enumerate(ROWS)}
relevant = {f"q{i}": {f"d{i}", f"d{(7 * i) % 48}", f"d{(5 * i + 3) % 48}"} for i in range(11)}
out["retrieval_evaluator"] = InformationRetrievalEvaluator(
    queries,
    corpus,
    relevant,
    mrr_at_k=[3, 10],
    ndcg_at_k=[10],
    accuracy_at_k=[1, 5],
    precision_recall_at_k=[1, 5],
    map_at_k=[20],
    write_csv=False,
    score_functions={
        n: f for n, f in zip(names, (sentence_transformers.util.cos_sim, dot_score, euclidean_sim, manhattan_sim))
    },
)(m)

shutil.rmtree(here / "saved", ignore_errors=True)
m = model("DistilBert", ("mean", "cls"), [dense(3, 2 * HIDDEN, 8), Normalize()], include_prompt=False)
m.max_seq_length = 9
m.prompts, m.default_prompt_name, m.similarity_fn_name = {"query": "w20 w21 ", "passage": "w22 "}, "query", "dot"
m.save_pretrained(str(here / "saved"), create_model_card=False)
tensors["saved"] = torch.from_numpy(m.encode(TEXTS, batch_size=4))
tensors["saved.document"] = torch.from_numpy(m.encode_document(TEXTS, batch_size=4))

versions = {
    "made with": f"torch {torch.__version__}, transformers {transformers.__version__}, sentence-transformers {sentence_transformers.__version__}"
}
save_file({k: v.contiguous() for k, v in tensors.items()}, str(here / "sentence.safetensors"), metadata=versions)
with open(here / "sentence.json", "w") as f:
    json.dump(out, f, indent=0, default=float)
    f.write("\n")
shutil.rmtree(folder)
