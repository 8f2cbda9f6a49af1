"""Golden values of sentence-transformers over language models that score pairs: python rerank.py writes
rerank.safetensors, rerank.json and the folder saved beside it.

For each language model, whose weights come from seed 42: the scores of pairs, of texts as they are and written with a
chat template. Losses in training mode with every gradient, and runs of CrossEncoderTrainer, each of 20 updates, one
with an adapter of peft. sentence-transformers pads language models on the left; where bits are compared, the pairs of
a batch have as many tokens as each other. Tensors are stored by the first 8 digits of their sha256, but for scores and
losses. saved is a folder that save_pretrained wrote, like that of Qwen3-Reranker.

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

os.environ["HF_HUB_OFFLINE"] = "1"
import peft
import sentence_transformers
import torch
import transformers
from accelerate import Accelerator
from datasets import Dataset
from goldenfile import save_file
from sentence_transformers import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.base.modules import Transformer
from sentence_transformers.cross_encoder import losses
from sentence_transformers.cross_encoder.modules import LogitScore
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, PreTrainedTokenizerFast

torch.set_num_threads(1)
WORDS, VOCAB, HIDDEN = 60, 65, 32
SIZES = dict(
    vocab_size=VOCAB,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    hidden_size=HIDDEN,
    intermediate_size=48,
    max_position_embeddings=48,
    initializer_range=0.2,  # so that scores differ
)
DECODERS = {  # name: class prefix, settings
    "qwen3": ("Qwen3", SIZES | dict(head_dim=12, tie_word_embeddings=True)),
    "llama": ("Llama", SIZES | dict(tie_word_embeddings=False)),
    "gemma2": ("Gemma2", SIZES | dict(head_dim=8, query_pre_attn_scalar=12, sliding_window=6, pad_token_id=0)),
    # a classifier whose tokenizer has a chat template
    "classifier": ("Qwen3", SIZES | dict(head_dim=12, num_labels=1, pad_token_id=0)),
}
SAID = """{{ messages | selectattr("role", "eq", "ROLE") | map(attribute="content") | first }}"""
TEMPLATES = {
    # as that of Qwen3-Reranker
    "flat": "<|im_start|> w11 w12 <|im_end|>\n<|im_start|> w13 "
    '{{ messages | selectattr("role", "eq", "system") | map(attribute="content") | first | default("w14 w15") }}\n'
    f"w16 {SAID.replace('ROLE', 'query')}\nw17 {SAID.replace('ROLE', 'document')} <|im_end|>\n"
    "<|im_start|> w18 {% if add_generation_prompt %}w19 {% endif %}w20 w21 ",
    "structured": "{{ bos_token }} {% for m in messages %}w11 {% for c in m.content %}{% if c.type == 'text' %}{{ c.text }}"
    "{% endif %}{% endfor %} w{{ 12 + loop.index }} {% endfor %}{% if thinking %}w{{ thinking }} {% endif %}w31 ",
}
tensors, out = {}, dict(decoders=[], templates=TEMPLATES, cases=[], losses=[], runs=[])
folder = tempfile.mkdtemp()


def sha(t):
    return hashlib.sha256(t.detach().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest()[:8]


def state():
    return sha(torch.get_rng_state())


def words(g, n, first=10, last=WORDS):
    return [f"w{int(i)}" for i in torch.randint(first, last, (n,), generator=g)]


g = torch.Generator().manual_seed(1)
# No two pairs have as many characters as each other, since argsort of numpy does not say which of them comes first.
EQUAL, RAGGED = [], {}
for short in range(8):  # 7 tokens, some of them words of two characters
    pair = words(g, short, 6, 10) + words(g, 7 - short)
    EQUAL.append([" ".join(pair[:3]), " ".join(pair[3:])])
while len(RAGGED) < 9:
    pair = [" ".join(words(g, int(torch.randint(1, 10, (), generator=g)))) for _ in range(2)]
    RAGGED[len(pair[0] + pair[1])] = pair
RAGGED = list(RAGGED.values())
ROWS, UNEVEN = [], []
for rows, most in ((ROWS, 0), (UNEVEN, 6)):

    def text(n):
        return " ".join(words(g, int(torch.randint(1, most + 1, (), generator=g)) if most else n))

    for _ in range(6 if most else 48):
        rows.append(
            dict(
                query=text(3),
                documents=[text(4) for _ in range(3)],
                labels=[round(float(torch.rand((), generator=g)) * 4) / 2 for _ in range(3)],
                score=round(float(torch.rand((), generator=g)), 3),
                label=int(torch.randint(0, 2, (), generator=g)),
            )
        )
out |= dict(equal=EQUAL, ragged=RAGGED, rows=ROWS, uneven=UNEVEN)


def tokenizer(name, template):
    """The tokenizer of Llama's kind begins texts with a token."""
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<unk>", "yes", "no"]
    vocab = {n: i for i, n in enumerate(names + [f"w{i}" for i in range(len(names), WORDS)] + list("01234"))}
    t = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    begins = dict(bos_token="<|im_start|>") if name == "llama" else {}
    if begins:
        t.post_processor = processors.TemplateProcessing(
            single="<|im_start|> $A", pair="<|im_start|> $A <|im_start|> $B:1", special_tokens=[("<|im_start|>", 1)]
        )
    t = PreTrainedTokenizerFast(
        tokenizer_object=t,
        unk_token="<unk>",
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        model_input_names=["input_ids", "attention_mask"],
        **begins,
    )
    t.chat_template = TEMPLATES.get(template)
    return t


def base(name, template):
    """A folder with a language model drawn from seed 42, and its tokenizer."""
    prefix, settings = DECODERS[name]
    path = os.path.join(folder, f"{name} {template}")
    if os.path.exists(path):
        return path
    torch.manual_seed(42)
    auto = AutoModelForSequenceClassification if name == "classifier" else AutoModelForCausalLM
    model = auto.from_config(getattr(transformers, prefix + "Config")(**settings))
    model.save_pretrained(path)
    tokenizer(name, template).save_pretrained(path)
    if all(d["name"] != name for d in out["decoders"]):
        out["decoders"].append(
            dict(
                name=name,
                config=json.load(open(path + "/config.json")),
                tokenizer=json.load(open(path + "/tokenizer.json")),
                tokenizer_config=json.load(open(path + "/tokenizer_config.json")),
                parameters=[n for n, _ in model.named_parameters()],
                initial=[sha(p) for p in model.parameters()],
            )
        )
    return path


def model(name, template=None, dtype=torch.float32, single=False, chat=None, **o):
    path = base(name, template)
    kwargs = dict(dtype=dtype) | (dict(attn_implementation="eager") if name == "gemma2" else {})
    if name == "classifier":
        return CrossEncoder(path, device="cpu", model_kwargs=kwargs, **o)
    processing = dict(processing_kwargs=dict(chat_template=chat)) if chat else {}
    return CrossEncoder(
        modules=[
            Transformer(path, transformer_task="text-generation", model_kwargs=kwargs, **processing),
            LogitScore(4, None if single else 5),
        ],
        device="cpu",
        **o,
    )


def predict(
    name, what, pairs, template=None, prompt=None, max_length=None, identity=False, bf16=False, left=False, **o
):
    m = model(name, template, dtype=torch.bfloat16 if bf16 else torch.float32, **o)
    if max_length:
        m.max_seq_length = max_length
    if left:
        m[0].tokenizer.padding_side = "left"
    activation = torch.nn.Identity() if identity else None
    ids = m.preprocess(pairs, prompt=prompt)
    ids = [row[keep.bool()].tolist() for row, keep in zip(ids["input_ids"], ids["attention_mask"])]
    title = f"{name}, {template}, {what}"
    tensors[title] = torch.from_numpy(m.predict(pairs, batch_size=4, prompt=prompt, activation_fn=activation))
    out["cases"].append(
        dict(
            name=title,
            decoder=name,
            template=template or "",
            equal=pairs is EQUAL,
            prompt=prompt or "",
            max_length=max_length or 0,
            identity=identity,
            bf16=bf16,
            left=left,
            single=o.get("single", False),
            chat=o.get("chat"),
            ids=ids,
        )
    )


for name in DECODERS:
    for template in (None, "flat", "structured") if name != "classifier" else ("flat",):
        for what, pairs in (("equal", EQUAL), ("ragged", RAGGED)):
            predict(name, what, pairs, template)
            predict(name, what + ", prompt", pairs, template, prompt="w7 w8 ", identity=True)
        predict(name, "cut", RAGGED, template, prompt="w9 ", max_length=24 if template else 9)
for template in (None, "flat"):
    predict("qwen3", "bf16", EQUAL, template, bf16=True)
    predict("qwen3", "one token", EQUAL, template, single=True, identity=True)
predict("classifier", "left", RAGGED, "flat", left=True)
predict("qwen3", "generation prompt", EQUAL, "flat", chat=dict(add_generation_prompt=True))
predict("llama", "variables", EQUAL, "structured", chat=dict(thinking=40))

PAIR, TRIPLET, LISTS = ["a"], ["a", "b"], "lists"
LOSSES = {  # the documents of a row, its label, and the loss
    "BinaryCrossEntropyLoss": (PAIR, "label", losses.BinaryCrossEntropyLoss),
    "MSELoss": (PAIR, "score", lambda m: losses.MSELoss(m, activation_fn=torch.nn.Sigmoid())),
    "MultipleNegativesRankingLoss": (TRIPLET, None, losses.MultipleNegativesRankingLoss),
    "CachedMultipleNegativesRankingLoss": (
        PAIR,
        None,
        lambda m: losses.CachedMultipleNegativesRankingLoss(m, mini_batch_size=4),
    ),
    "ListNetLoss": (LISTS, "labels", losses.ListNetLoss),
    "LambdaLoss": (LISTS, "labels", losses.LambdaLoss),
    "RankNetLoss": (LISTS, "labels", losses.RankNetLoss),
}


def columns(documents, rows):
    if documents == LISTS:
        return dict(query=[r["query"] for r in rows], docs=[r["documents"] for r in rows])
    return dict(query=[r["query"] for r in rows]) | {
        c: [r["documents"][k] for r in rows] for k, c in enumerate(documents)
    }


def labels_of(kind, rows):
    values = [r[kind] for r in rows]
    return [torch.tensor(v) for v in values] if isinstance(values[0], list) else torch.tensor(values)


def common(name, template, prompt, kind):
    documents, label, _ = LOSSES[kind]
    return dict(
        decoder=name,
        template=template or "",
        prompt=prompt or "",
        loss=kind,
        documents=0 if documents == LISTS else len(documents),
        label=label or "",
    )


PASSES = [  # decoder, template, prompt, loss, settings
    ("qwen3", "flat", "w9 w8", "BinaryCrossEntropyLoss", {}),
    ("qwen3", None, None, "MultipleNegativesRankingLoss", {}),
    ("qwen3", "flat", None, "CachedMultipleNegativesRankingLoss", {}),
    ("llama", "structured", "w9", "LambdaLoss", {}),
    ("llama", None, "w9 ", "ListNetLoss", {}),
    ("gemma2", "flat", None, "RankNetLoss", {}),
    ("gemma2", None, None, "BinaryCrossEntropyLoss", {}),
    ("classifier", "flat", "w9", "MSELoss", {}),
    ("qwen3", "flat", None, "MSELoss", dict(bf16=True)),
    ("qwen3", "flat", "w9 w8", "BinaryCrossEntropyLoss", dict(uneven=True)),
    ("llama", None, None, "LambdaLoss", dict(uneven=True)),
]
for name, template, prompt, kind, o in PASSES:
    documents, label, make = LOSSES[kind]
    m = model(name, template)
    if o.get("bf16"):  # with the outputs in float32, as the Trainer has them
        m = Accelerator(mixed_precision="bf16", cpu=True).prepare(m)
    rows = UNEVEN if o.get("uneven") else ROWS[:6]
    loss = make(m)
    m.train()
    torch.manual_seed(7)
    value = loss(list(columns(documents, rows).values()), labels_of(label, rows) if label else None, prompt)
    value.backward()
    title = f"{name}, {template}, {kind}" + "".join(f", {k}" for k in o)
    tensors["loss." + title] = value.detach()
    out["losses"].append(
        dict(
            name=title,
            bf16=o.get("bf16", False),
            uneven=o.get("uneven", False),
            grads=[sha(p.grad) if p.grad is not None else "" for p in m.parameters()],
            norms=[float(f"{p.grad.double().norm():.6g}") if p.grad is not None else 0 for p in m.parameters()],
            generator=state(),
        )
        | common(name, template, prompt, kind)
    )

RUNS = [  # decoder, template, prompt, loss, settings
    ("qwen3", "flat", "w9 w8", "BinaryCrossEntropyLoss", {}),
    ("qwen3", "flat", None, "MultipleNegativesRankingLoss", dict(adapter=True)),
    ("llama", None, None, "LambdaLoss", dict(gradient_checkpointing=True)),
    ("gemma2", "flat", None, "CachedMultipleNegativesRankingLoss", dict(accumulate=2)),
]
for name, template, prompt, kind, o in RUNS:
    documents, label, make = LOSSES[kind]
    m = model(name, template)
    if o.get("adapter"):
        torch.manual_seed(9)
        m.add_adapter(peft.LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
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
        gradient_accumulation_steps=o.get("accumulate", 1),
        gradient_checkpointing=o.get("gradient_checkpointing", False),
        prompts=prompt,
    )
    data = columns(documents, ROWS) | ({"label": [r[label] for r in ROWS]} if label else {})
    t = CrossEncoderTrainer(model=m, args=args, train_dataset=Dataset.from_dict(data), loss=make(m))
    t.train()
    log = [r for r in t.state.log_history if "loss" in r]
    out["runs"].append(
        dict(
            accumulate=o.get("accumulate", 1),
            checkpointing=o.get("gradient_checkpointing", False),
            adapter=o.get("adapter", False),
            losses=[r["loss"].hex() for r in log],
            grad_norms=[float(r["grad_norm"]).hex() for r in log],
            final=[sha(p) for p in m.parameters() if p.requires_grad],
            generator=state(),
        )
        | common(name, template, prompt, kind)
    )

# The tokens of pairs as byte-level BPE makes them of a template as that of Qwen3-Reranker.
JUDGE = """<|im_start|>system
Judge whether the Document meets the requirements. Note that the answer can only be "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: {{ messages | selectattr("role", "eq", "system") | map(attribute="content") | first | default("Find answers") }}
<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}
<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}<|im_end|>
<|im_start|>assistant
<think>

</think>

"""
SAYINGS = [
    ["How many people live in Berlin?", "Berlin had a population of 3,520,031 in 2019."],
    ["how  many", "\n\nMuseums are many, and well known:  Pergamon,\tBode ...\n"],
    ["¿Qué es?", "Straße — 日本語 🙂"],
    ["", ""],
]
t = Tokenizer(models.BPE())
t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
trainer = trainers.BpeTrainer(
    vocab_size=420,
    initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"],
    show_progress=False,
)
t.train_from_iterator([JUDGE.partition("{{")[0]] * 3 + ["yes no"] * 3 + [" ".join(p) for p in SAYINGS], trainer)
t = PreTrainedTokenizerFast(tokenizer_object=t, pad_token="<|endoftext|>", eos_token="<|im_end|>")
t.chat_template = JUDGE
path = os.path.join(folder, "judge")
config = transformers.Qwen3Config(
    **SIZES | dict(vocab_size=len(t), hidden_size=16, head_dim=4, max_position_embeddings=512)
)
AutoModelForCausalLM.from_config(config).save_pretrained(path)
t.save_pretrained(path)
m = CrossEncoder(path, device="cpu")
out["judge"] = dict(
    config=json.load(open(path + "/config.json")),
    tokenizer=json.load(open(path + "/tokenizer.json")),
    tokenizer_config=json.load(open(path + "/tokenizer_config.json")),
    template=JUDGE,
    score=m[1].get_config_dict(),
    pairs=SAYINGS,
    cases=[],
)
bare = len(m.preprocess([["", ""]])["input_ids"][0])
for prompt in (None, "Judge"):
    for max_length in (512, bare + 30, bare + 9):
        m.max_seq_length = max_length
        ids = [m.preprocess([pair], prompt=prompt)["input_ids"][0].tolist() for pair in SAYINGS]
        out["judge"]["cases"].append(dict(prompt=prompt or "", max_length=max_length, ids=ids))

shutil.rmtree(here / "saved", ignore_errors=True)
m = model("qwen3", "flat", chat=dict(add_generation_prompt=True))
m.activation_fn, m.max_seq_length = torch.nn.Identity(), 32
m.prompts, m.default_prompt_name = {"search": "w7 w8 w9", "classify": "w10"}, "search"
m.save_pretrained(str(here / "saved"), create_model_card=False)
m = CrossEncoder(str(here / "saved"), device="cpu")
tensors["saved"] = torch.from_numpy(m.predict(EQUAL, batch_size=4))
tensors["saved, ragged"] = torch.from_numpy(m.predict(RAGGED, batch_size=4, prompt_name="classify"))

versions = {
    "made with": f"torch {torch.__version__}, transformers {transformers.__version__}, sentence-transformers {sentence_transformers.__version__}"
}
save_file({k: v.contiguous() for k, v in tensors.items()}, str(here / "rerank.safetensors"), metadata=versions)
with open(here / "rerank.json", "w") as f:
    json.dump(out, f, indent=0, default=float)
    f.write("\n")
shutil.rmtree(folder)
