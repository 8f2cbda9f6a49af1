"""Golden values of packed texts from TRL's SFTTrainer: python packing.py writes packing.json.

What pack_dataset makes of texts, and runs without padding. There is no dropout, since TRL draws its mask for all texts
of a batch at once, and not for those of each length. Needs trl 1.16.0, transformers 5.17.0, torch 2.11.0.
"""

import json
import os
import pathlib
import random
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[2] / "internal/modeltest"))
os.environ.update(CI="1", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_PROGRESS_BARS="1", HF_DATASETS_CACHE=tempfile.mkdtemp())
import causal  # first, since it chooses the code paths of libtorch
import datasets
import torch
import transformers
from causal import parameters
from transformers import AutoTokenizer
from trl import SFTConfig, SFTTrainer, pack_dataset

datasets.disable_progress_bars()
tok = AutoTokenizer.from_pretrained(here.parents[2] / "dpo/testdata/tokenizer")
SIZES = dict(
    vocab_size=len(tok),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=48,
    max_position_embeddings=64,
    bos_token_id=tok.bos_token_id,
    eos_token_id=tok.eos_token_id,
)
GPT2 = dict(vocab_size=len(tok), n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1)
MODELS = {
    "llama": ("LlamaForCausalLM", SIZES),
    "gemma2": (
        "Gemma2ForCausalLM",
        SIZES | dict(head_dim=8, sliding_window=6, pad_token_id=0, attn_logit_softcapping=None),
    ),
    "gpt2": ("GPT2LMHeadModel", GPT2 | dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)),
}


def make(name):
    torch.manual_seed(42)
    cls = getattr(transformers, MODELS[name][0])
    model = cls(cls.config_class(**MODELS[name][1]))
    with torch.no_grad():  # so that probabilities are far from even
        for p in model.parameters():
            if p.dim() == 2:
                p.mul_(4)
    return model


words = "the red fox ran home in rain and sleet; nobody heard her bark again".split()
draw = random.Random(5)
some = lambda least, most: " ".join(draw.choice(words) for _ in range(draw.randint(least, most)))
whole = [{"text": some(2, 9)} for _ in range(60)]
completions = [{"prompt": some(1, 4), "completion": " " + some(1, 6)} for _ in range(60)]


def trainer(model, rows, **settings):
    settings = (
        dict(max_length=24, learning_rate=1e-3, logging_steps=1, gradient_checkpointing=False, bf16=False) | settings
    )
    return SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir="/tmp/unused",
            report_to=[],
            use_cpu=True,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=8,
            save_strategy="no",
            disable_tqdm=True,
            **settings,
        ),
        train_dataset=datasets.Dataset.from_list(rows),
        eval_dataset=datasets.Dataset.from_list(rows[:8]),
        processing_class=tok,
    )


def packed(lengths, size, strategy):
    """The samples that pack_dataset makes of texts of the given lengths, whose tokens are 0, 1, 2 and so on"""
    tokens, texts = 0, []
    for n in lengths:
        texts.append(list(range(tokens, tokens + n)))
        tokens += n
    made = pack_dataset(datasets.Dataset.from_dict({"input_ids": texts}), size, strategy)
    return dict(
        lengths=lengths,
        size=size,
        strategy=strategy,
        samples=[dict(input_ids=r["input_ids"], seq_lengths=r.get("seq_lengths")) for r in made],
    )


out = {
    "packed": [
        packed(lengths, size, strategy)
        for lengths, size in [
            ([5, 2, 3, 1], 4),
            ([draw.randint(0, 20) for _ in range(40)], 16),
            ([1 + draw.randint(0, 1) for _ in range(1010)], 300),
        ]
        for strategy in ["bfd", "bfd_split", "wrapped"]
    ],
    "models": {n: make(n).config.to_diff_dict() for n in MODELS},
    "initial": {n: parameters(make(n)) for n in MODELS},
    "runs": [],
}
for name, rows in [("whole", whole), ("completions", completions)]:
    data = trainer(make("llama"), rows, max_length=None).train_dataset
    out[name] = [[r["input_ids"], r.get("labels", r["input_ids"])] for r in data]


def run(name, family="llama", rows=completions, **settings):
    """A run of SFTTrainer, and an evaluation of the first eight texts"""
    t = trainer(make(family), rows, **settings)
    t.train()
    t.evaluate()
    dropped = ("epoch", "step", "total_flos", "train_loss", "num_tokens", "eval_num_tokens")
    keep = lambda k: k not in dropped and "runtime" not in k and "per_second" not in k
    out["runs"].append(
        dict(
            name=name,
            family=family,
            whole=rows is whole,
            settings=settings,
            samples=len(t.train_dataset),
            logs=[
                {k: float(v).hex() for k, v in r.items() if keep(k)}
                for r in t.state.log_history
                if "loss" in r or "eval_loss" in r
            ],
        )
    )


run("bfd", packing=True, max_steps=8)
run("bfd, whole texts", rows=whole, packing=True, max_steps=8)
run("bfd_split", rows=whole, packing=True, packing_strategy="bfd_split", max_length=16, max_steps=8)
run("wrapped", rows=whole, packing=True, packing_strategy="wrapped", max_steps=8)
run("without padding", padding_free=True, max_length=None, max_steps=12)
run("gpt2", family="gpt2", packing=True, max_steps=8)
run("windows", family="gemma2", packing=True, max_steps=8)
run("accumulated", packing=True, max_steps=6, gradient_accumulation_steps=2, logging_steps=2)
run("bf16", packing=True, max_steps=8, bf16=True)
run("checkpointing", packing=True, max_steps=8, gradient_checkpointing=True)
(here / "packing.json").write_text(json.dumps(out, separators=(",", ":")) + "\n")
