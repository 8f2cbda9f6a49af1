"""Golden values from TRL's KTOTrainer: python kto.py writes unpaired.jsonl, kto.json and kto.safetensors beside it.

Completions that are good or bad and the tokens that TRL makes of them, batches of its collator, a forward and backward
pass with each loss, and runs of KTOTrainer, on one process and on two (gloo). The tokenizer is that of package dpo.
Needs trl 1.16.0, transformers 5.17.0, peft 0.21.2, torch 2.11.0.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
os.environ.update(CI="1", HF_HUB_OFFLINE="1", HF_HUB_DISABLE_PROGRESS_BARS="1", HF_DATASETS_CACHE=tempfile.mkdtemp())
import causal  # first, since it chooses the code paths of libtorch
import datasets
import torch
import transformers
from causal import generator, parameters, sha, tensors
from peft import LoraConfig
from transformers import AutoTokenizer
from trl import KTOConfig, KTOTrainer
from trl.trainer.kto_trainer import DataCollatorForUnpairedPreference

datasets.disable_progress_bars()
causal.tensors.clear()
tok = AutoTokenizer.from_pretrained(here.parents[1] / "dpo/testdata/tokenizer")

words = "the red fox ran home in rain and sleet; nobody heard her bark again".split()
draw = random.Random(4)
say = lambda n: " ".join(draw.choice(words) for _ in range(n))
texts = [
    {"prompt": say(draw.randint(1, 5)), "completion": " " + say(draw.randint(1, 6)), "label": draw.random() < 0.6}
    for _ in range(40)
]
texts[1]["completion"] += "</s>"  # has its end already
texts[2]["prompt"] += " "  # the space goes to the completion
texts[5]["prompt"] = say(14)  # fills max_length
texts[7]["completion"] = " " + say(20)
for row in texts[8:12]:  # a batch without bad completions
    row["label"] = True
user, assistant = lambda s: {"role": "user", "content": s}, lambda s: {"role": "assistant", "content": s}
chats = [{"prompt": [user(say(2))], "completion": [assistant(say(3))], "label": i % 2 == 0} for i in range(4)]
chats.append(
    {"prompt": [user("a"), assistant("b"), user(say(3))], "completion": [assistant("Größe 🦜")], "label": False}
)
pairs = [{"prompt": "the red", "chosen": " fox", "rejected": " hen"}, {"prompt": "a", "chosen": "b", "rejected": "c"}]

SIZES = dict(
    vocab_size=len(tok),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=48,
    max_position_embeddings=128,
    eos_token_id=1,
    bos_token_id=0,
)
MODELS = {
    "llama": ("LlamaForCausalLM", SIZES),
    "gpt2": (
        "GPT2LMHeadModel",
        dict(vocab_size=len(tok), n_positions=128, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1),
    ),
}


def make(name, seed):
    torch.manual_seed(seed)
    cls = getattr(transformers, MODELS[name][0])
    model = cls(cls.config_class(**MODELS[name][1]))
    with torch.no_grad():  # so that probabilities are far from even
        for p in model.parameters():
            if p.dim() == 2:
                p.mul_(4)
    return model


def trainer(model, rows, ref, peft=None, eval=None, **settings):
    settings = (
        dict(max_length=40, learning_rate=1e-3, logging_steps=1, gradient_checkpointing=False, bf16=False) | settings
    )
    args = KTOConfig(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        save_strategy="no",
        disable_tqdm=True,
        **settings,
    )
    return KTOTrainer(
        model=model,
        ref_model=ref,
        args=args,
        train_dataset=datasets.Dataset.from_list(rows),
        eval_dataset=eval and datasets.Dataset.from_list(eval),
        processing_class=tok,
        peft_config=peft,
    )


def numbers(row):
    return {
        k: float(v).hex()
        for k, v in row.items()
        if not any(s in k for s in ("runtime", "per_second", "num_tokens"))
        and k not in ("epoch", "step", "total_flos", "train_loss")
    }


def run(name, family="llama", lora=None, eval=True, **settings):
    """A run of KTOTrainer over all texts, and an evaluation of the first four, which are one batch"""
    kept = [t for i, t in enumerate(texts) if i != 5]
    t = trainer(
        make(family, 42),
        texts,
        None if lora else make(family, 43),
        peft=lora and LoraConfig(**lora),
        eval=kept[:4],
        **settings,
    )
    if lora:
        torch.manual_seed(42)
        with torch.no_grad():
            for n in sorted(n for n, p in t.model.named_parameters() if p.requires_grad):
                dict(t.model.named_parameters())[n].normal_(0, 0.1)
        torch.manual_seed(42)
    t.train()
    after = generator()
    if eval:
        t.evaluate()
    return dict(
        name=name,
        family=family,
        settings=settings,
        lora=lora,
        generator=after,
        final={
            n.replace("base_model.model.", "").replace(".default", "").replace(".base_layer", ""): sha(p)
            for n, p in t.model.named_parameters()
            if p.requires_grad
        },
        logs=[numbers(r) for r in t.state.log_history if "loss" in r or "eval_loss" in r],
    )


if "RANK" in os.environ:
    torch.set_num_threads(1)
    result = [
        run("kto", eval=False, max_steps=2, gradient_accumulation_steps=2, ddp_backend="gloo"),
        run("apo_zero_unpaired", eval=False, max_steps=4, loss_type="apo_zero_unpaired", ddp_backend="gloo"),
    ]
    if os.environ["RANK"] == "0":
        with open(os.environ["OUT"], "w") as f:
            json.dump(result, f)
    torch.distributed.destroy_process_group()
    sys.exit()

with open(here / "unpaired.jsonl", "w", encoding="utf-8") as f:
    f.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in texts + chats)
out = {
    "models": {n: make(n, 42).config.to_diff_dict() for n in MODELS},
    "initial": {n: {s: parameters(make(n, s)) for s in (42, 43)} for n in MODELS},
    "cases": [],
}
tokens = lambda set: [[r["prompt_ids"], r["completion_ids"], bool(r["label"])] for r in set]
plain = lambda rows, **settings: trainer(make("llama", 42), rows, make("llama", 43), **settings).train_dataset
out["tokens"] = [row for rows in (texts, chats) for row in tokens(plain(rows, max_length=None))]
out["pairs"] = dict(rows=pairs, tokens=tokens(plain(pairs, max_length=None)))
kept = plain(texts)
out["kept"] = len(kept)
out["batches"] = []
for settings in (dict(max_length=40), dict(max_length=20), dict(max_length=30, pad_to_multiple_of=8)):
    b = DataCollatorForUnpairedPreference(pad_token_id=tok.pad_token_id or 1, **settings)([kept[i] for i in range(4)])
    out["batches"].append(settings | {k: v.tolist() for k, v in b.items()})


def case(name, family="llama", rows=range(4), bf16=False, **settings):
    """A forward and backward pass of four texts"""
    model = make(family, 42)
    t = trainer(model, texts, make(family, 43).eval(), **settings)  # as from_pretrained returns it
    samples = [t.train_dataset[i] for i in rows]
    for s, before in zip(samples, samples[-1:] + samples[:-1]):  # paired as if they were one batch of the data set
        s["KL_completion_ids"] = before["completion_ids"]
    batch = t.data_collator(samples)
    model.train()
    torch.manual_seed(7)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        loss = t.compute_loss(model, batch)
    metrics = {k: float(sum(v) / len(v)).hex() for k, v in t._metrics["train"].items() if k != "num_tokens"}
    loss.backward()
    tensors[name + ".loss"] = loss.detach()
    out["cases"].append(
        dict(
            name=name,
            family=family,
            rows=list(rows),
            bf16=bf16,
            settings=settings,
            generator=generator(),
            metrics=metrics,
            grads=parameters(model, lambda p: p.grad),
            norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()},
        )
    )


case("kto")
case("kto, the other way round", rows=(12, 13, 14, 15), beta=0.5)
case("apo_zero_unpaired", loss_type="apo_zero_unpaired", beta=0.3)
case("weights", desirable_weight=1.3, undesirable_weight=0.7)
bad = [i for i in range(len(kept)) if not kept[i]["label"]]
good = [i for i in range(len(kept)) if kept[i]["label"]]
case("good completions only", rows=good[:4])
case("bad completions only", rows=bad[:4])
case("dropout", family="gpt2", disable_dropout=False)
case("gpt2", family="gpt2")
case("bf16", bf16=True)
out["runs"] = [
    run("llama", max_steps=12),
    run("llama, accumulated", max_steps=6, gradient_accumulation_steps=2, beta=0.3, logging_steps=2),
    run("gpt2, apo_zero_unpaired", family="gpt2", max_steps=8, loss_type="apo_zero_unpaired", undesirable_weight=1.5),
    run("llama with updates", lora=dict(r=4, lora_alpha=8, task_type="CAUSAL_LM"), max_steps=8),
    run("llama, bf16", max_steps=8, bf16=True),
    run("llama, checkpointing", max_steps=6, gradient_checkpointing=True),
]
ranks = tempfile.mkdtemp() + "/ranks.json"
run_of = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", __file__]
subprocess.run(run_of, env=os.environ | {"OUT": ranks}, check=True)
with open(ranks) as f:
    out["ranks"] = json.load(f)
causal.write(str(here / "kto"), out)
