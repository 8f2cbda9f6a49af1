"""Golden values of sentence-transformers over decoders: python embed.py writes embed.safetensors, embed.json and the
folders qwen3 and gemma3 beside it.

For each decoder, whose weights come from seed 42: what encode makes of texts, also with weights of bf16 and with
padding on the left. Losses in training mode with every gradient, and runs of SentenceTransformerTrainer, each of 20
updates over shuffled ragged texts, one with an adapter of peft. Tensors are stored by the first 8 digits of their
sha256, but for embeddings and losses. The folders are a Qwen3 as Qwen3-Embedding has it, and a Gemma3 as EmbeddingGemma
has it.

Needs sentence-transformers 6.2.0 with transformers 5.17.0, torch 2.11.0, peft, datasets and accelerate.
"""

import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401  # first, since it chooses the code paths of libtorch

import peft
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
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoModel, PreTrainedTokenizerFast

torch.set_num_threads(1)
VOCAB, HIDDEN = 60, 32
SIZES = dict(
    vocab_size=VOCAB,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    hidden_size=HIDDEN,
    intermediate_size=48,
    max_position_embeddings=40,
)
FULL, SLIDING = "full_attention", "sliding_attention"
DECODERS = {  # name: class prefix, settings; those with is_causal False are like GTE-Qwen2
    "qwen3": ("Qwen3", SIZES | dict(head_dim=12)),
    "mistral": ("Mistral", SIZES | dict(sliding_window=5, attention_dropout=0.1)),
    "llama": ("Llama", SIZES | dict(is_causal=False)),
    "qwen3 with windows": (
        "Qwen3",
        SIZES
        | dict(is_causal=False, use_sliding_window=True, sliding_window=3, layer_types=[FULL, SLIDING], pad_token_id=0),
    ),
    "gemma3": (
        "Gemma3Text",
        SIZES
        | dict(
            head_dim=8,
            query_pre_attn_scalar=12,
            sliding_window=6,
            layer_types=[SLIDING, FULL],
            use_bidirectional_attention=True,
        ),
    ),
    "gemma3, eager": (
        "Gemma3Text",
        SIZES
        | dict(
            head_dim=8,
            query_pre_attn_scalar=12,
            sliding_window=4,
            layer_types=[SLIDING, FULL],
            use_bidirectional_attention=True,
            attention_dropout=0.1,
        ),
    ),
    "llama, eager": ("Llama", SIZES | dict(is_causal=False)),
    "gpt2": ("GPT2", dict(vocab_size=VOCAB, n_positions=40, n_embd=HIDDEN, n_layer=2, n_head=4, n_inner=48)),
    "mixtral": ("Mixtral", SIZES | dict(num_local_experts=4, pad_token_id=0)),
}
MODES = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
tensors, out = {}, dict(encoders=[], losses=[], runs=[])
folder = tempfile.mkdtemp()


def sha(t):
    return hashlib.sha256(t.detach().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:8]


def state():
    return sha(torch.get_rng_state())


def sentence(g, most):
    return " ".join(
        f"w{int(i)}" for i in torch.randint(4, VOCAB, (int(torch.randint(1, most + 1, (), generator=g)),), generator=g)
    )


g = torch.Generator().manual_seed(1)
# no two of the same length, since argsort of numpy does not say which of them comes first
TEXTS = list({len(s): s for s in (sentence(g, 12) for _ in range(40))}.values())[:9]
ROWS = [[sentence(g, 12) for _ in range(3)] + [round(float(torch.rand((), generator=g)), 3)] for _ in range(48)]
out["texts"], out["rows"] = TEXTS, [dict(texts=r[:3], score=r[3]) for r in ROWS]


def tokenizer(name):
    """That of Qwen3-Embedding ends texts with the token that pads them; that of EmbeddingGemma begins them, too."""
    gemma = name.startswith("gemma")
    names = ["<pad>", "<eos>", "<bos>", "<unk>"] if gemma else ["<|endoftext|>", "<s>", "</s>", "<unk>"]
    vocab = {n: i for i, n in enumerate(names + [f"w{i}" for i in range(4, VOCAB)])}
    t = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    single = "<bos> $A <eos>" if gemma else "$A <|endoftext|>"
    t.post_processor = processors.TemplateProcessing(
        single=single, special_tokens=[(n, i) for n, i in vocab.items() if n in single.split()]
    )
    special = dict(pad_token="<pad>", bos_token="<bos>", eos_token="<eos>") if gemma else {}
    return PreTrainedTokenizerFast(
        tokenizer_object=t,
        unk_token="<unk>",
        model_input_names=["input_ids", "attention_mask"],
        **(special or dict(pad_token="<|endoftext|>", eos_token="</s>")),
    )


def base(name):
    """A folder with a decoder drawn from seed 42, and its tokenizer."""
    prefix, settings = DECODERS[name]
    path = os.path.join(folder, name)
    if os.path.exists(path):
        return path
    torch.manual_seed(42)
    model = AutoModel.from_config(getattr(transformers, prefix + "Config")(**settings))
    model.save_pretrained(path)
    tokenizer(name).save_pretrained(path)
    out["encoders"].append(
        dict(
            name=name,
            architecture=type(model).__name__,
            attention="eager" if "eager" in name else "",
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


def model(name, pooling="lasttoken", modules=(), dtype=torch.float32, **o):
    kwargs = dict(dtype=dtype) | (dict(attn_implementation="eager") if "eager" in name else {})
    return SentenceTransformer(
        modules=[Transformer(base(name), model_kwargs=kwargs), Pooling(HIDDEN, pooling, **o), *modules], device="cpu"
    )


def gemma(**o):
    """The modules of EmbeddingGemma."""
    identity = torch.nn.Identity()
    return model(
        "gemma3",
        "mean",
        [
            dense(3, HIDDEN, 48, bias=False, activation_function=identity),
            dense(4, 48, 24, bias=False, activation_function=identity),
            Normalize(),
        ],
        **o,
    )


def encode(name, case, m, **o):
    tensors[f"{name}, {case}"] = torch.from_numpy(m.encode(TEXTS, batch_size=4, **o))
    out["encoders"][-1]["cases"].append(case)


for name in DECODERS:
    for mode in MODES if name in ("qwen3", "gemma3") else ("lasttoken", "mean"):
        encode(name, mode, model(name, mode))
        encode(name, mode + " without prompt", model(name, mode, include_prompt=False), prompt="w7 w8 w9 ")
    m = model(name)
    m.max_seq_length = 6
    encode(name, "cut", m, truncate_dim=7, normalize_embeddings=True, prompt="w10 ")
    encode(name, "bf16", model(name, dtype=torch.bfloat16))
    m = model(name)
    m[0].tokenizer.padding_side = "left"
    encode(name, "left", m)
    encode(name, "left, without prompt", model(name, include_prompt=False), prompt="w7 w8 w9 ")
    m = model(name, "weightedmean")
    m[0].tokenizer.padding_side = "left"
    encode(name, "left, weightedmean", m)

LOSSES = {  # texts of a row, whether they have a score, and the loss of a model
    "MultipleNegativesRankingLoss": (3, False, losses.MultipleNegativesRankingLoss),
    "CoSENTLoss": (2, True, losses.CoSENTLoss),
    "CachedMultipleNegativesRankingLoss": (
        2,
        False,
        lambda m: losses.CachedMultipleNegativesRankingLoss(m, mini_batch_size=2),
    ),
}
PASSES = [
    ("qwen3", "MultipleNegativesRankingLoss"),
    ("qwen3", "CachedMultipleNegativesRankingLoss"),
    ("mistral", "CoSENTLoss"),
    ("llama", "MultipleNegativesRankingLoss"),
    ("qwen3 with windows", "CoSENTLoss"),
    ("llama, eager", "CoSENTLoss"),
    ("gemma3", "MultipleNegativesRankingLoss"),
    ("gemma3, eager", "CoSENTLoss"),
    ("gpt2", "MultipleNegativesRankingLoss"),
]
for name, kind in PASSES:
    texts, scored, make = LOSSES[kind]
    m = gemma() if name == "gemma3" else model(name)
    loss = make(m)
    features = [m.preprocess([r[k] for r in ROWS[:6]]) for k in range(texts)]
    m.train()
    torch.manual_seed(7)
    value = loss(features, torch.tensor([r[3] for r in ROWS[:6]]) if scored else None)
    value.backward()
    tensors[f"loss.{name}, {kind}"] = value.detach()
    out["losses"].append(
        dict(
            encoder=name,
            loss=kind,
            texts=texts,
            grads=[sha(p.grad) if p.grad is not None else "" for p in m.parameters()],
            norms=[float(f"{p.grad.double().norm():.6g}") if p.grad is not None else 0 for p in m.parameters()],
            generator=state(),
        )
    )

RUNS = [  # decoder, loss, settings of the run
    ("qwen3", "MultipleNegativesRankingLoss", dict()),
    ("qwen3", "MultipleNegativesRankingLoss", dict(adapter=True, prompts={"a": "w11 w12 ", "b": "", "c": ""})),
    ("qwen3", "CachedMultipleNegativesRankingLoss", dict(gradient_checkpointing=True)),
    ("gemma3", "MultipleNegativesRankingLoss", dict(accumulate=2)),
    ("qwen3 with windows", "MultipleNegativesRankingLoss", dict()),
    ("mistral", "MultipleNegativesRankingLoss", dict(gradient_checkpointing=True)),
    ("gpt2", "MultipleNegativesRankingLoss", dict()),
]
for name, kind, o in RUNS:
    texts, scored, make = LOSSES[kind]
    m = gemma() if name == "gemma3" else model(name, "lasttoken", [Normalize()] if name == "qwen3" else [])
    if o.get("adapter"):
        torch.manual_seed(9)
        m.add_adapter(
            peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="FEATURE_EXTRACTION")
        )
    prompts = o.get("prompts")
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
        gradient_accumulation_steps=o.get("accumulate", 1),
        gradient_checkpointing=o.get("gradient_checkpointing", False),
        prompts=prompts,
    )
    rows = [{c: r[k] for k, c in enumerate("abc"[:texts])} | ({"score": r[3]} if scored else {}) for r in ROWS]
    t = SentenceTransformerTrainer(model=m, args=args, train_dataset=Dataset.from_list(rows), loss=make(m))
    t.train()
    log = [r for r in t.state.log_history if "loss" in r]
    trained = [p for p in m.parameters() if p.requires_grad]
    out["runs"].append(
        dict(
            encoder=name,
            loss=kind,
            texts=texts,
            accumulate=o.get("accumulate", 1),
            checkpointing=o.get("gradient_checkpointing", False),
            adapter=o.get("adapter", False),
            prompts=[prompts[c] for c in "abc"[:texts]] if prompts else None,
            losses=[r["loss"].hex() for r in log],
            grad_norms=[float(r["grad_norm"]).hex() for r in log],
            final=[sha(p) for p in trained],
            generator=state(),
        )
    )


def saved(name, m):
    path = here / name
    shutil.rmtree(path, ignore_errors=True)
    m.save_pretrained(str(path), create_model_card=False)
    tensors[f"{name}.query"] = torch.from_numpy(m.encode_query(TEXTS, batch_size=4))
    tensors[f"{name}.document"] = torch.from_numpy(m.encode_document(TEXTS, batch_size=4))
    return path


m = model("qwen3", "lasttoken", [Normalize()])
m[0].tokenizer.padding_side = "left"
m.prompts, m.max_seq_length = {"query": "w20 w21 ", "document": ""}, 9
path = saved("qwen3", m)
for name, settings in {  # as in the files of Qwen3-Embedding
    "config.json": dict(architectures=["Qwen3ForCausalLM"]),
    "tokenizer_config.json": dict(padding_side="left"),
}.items():
    settings = json.loads((path / name).read_text()) | settings
    (path / name).write_text(json.dumps(settings, indent=2) + "\n")
m = gemma()
m.prompts = {"query": "w20 w21 ", "document": "w22 "}
saved("gemma3", m)

versions = {
    "made with": f"torch {torch.__version__}, transformers {transformers.__version__}, sentence-transformers {sentence_transformers.__version__}"
}
save_file({k: v.contiguous() for k, v in tensors.items()}, str(here / "embed.safetensors"), metadata=versions)
with open(here / "embed.json", "w") as f:
    json.dump(out, f, indent=0, default=float)
    f.write("\n")
shutil.rmtree(folder)
