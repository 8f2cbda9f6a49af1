"""Golden values from TRL's SFTTrainer: python sft.py writes sft.json and sft.safetensors beside it.

Tokens, batches, a forward and backward pass with each loss, and runs of SFTTrainer. The tokenizer is that of package
dpo. Needs trl 1.16.0, transformers 5.17.0, peft 0.21.2, torch 2.11.0.
"""

import os
import pathlib
import random
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
from trl import SFTConfig, SFTTrainer

datasets.disable_progress_bars()
tensors.clear()
tok = AutoTokenizer.from_pretrained(here.parents[1] / "dpo/testdata/tokenizer")
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
MODELS = {
    "llama": ("LlamaForCausalLM", SIZES | dict(attention_dropout=0.1)),
    "gemma2": (
        "Gemma2ForCausalLM",
        SIZES | dict(head_dim=8, final_logit_softcapping=2.0, pad_token_id=0, attn_logit_softcapping=None),
    ),
    "granite": ("GraniteForCausalLM", SIZES | dict(logits_scaling=0.5)),
    "gpt2": (
        "GPT2LMHeadModel",
        dict(vocab_size=len(tok), n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1),
    ),
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
whole = [{"text": some(2, 9)} for _ in range(12)]
completions = [{"prompt": some(1, 4), "completion": " " + some(1, 6)} for _ in range(40)]
completions[2]["completion"] = ""
completions[7]["prompt"] = some(10, 10)  # leaves nothing of the completion


def trainer(model, rows, **settings):
    peft = settings.pop("peft", None)
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
        peft_config=peft,
    )


out = {
    "models": {n: make(n).config.to_diff_dict() for n in MODELS},
    "initial": {n: parameters(make(n)) for n in MODELS},
    "whole": [r["text"] for r in whole],
    "completions": [[r["prompt"], r["completion"]] for r in completions],
    "cases": [],
    "runs": [],
}
for name, rows in [("whole", whole), ("completions", completions)]:
    data = trainer(make("llama"), rows, max_length=None).train_dataset
    out[name + "_tokens"] = [[r["input_ids"], r.get("labels", r["input_ids"])] for r in data]


def case(name, family="llama", rows=completions, bf16=False, **settings):
    """A forward and backward pass of the first six samples"""
    model = make(family)
    t = trainer(model, rows, **settings)
    batch = t.data_collator([t.train_dataset[i] for i in range(6)])
    model.train()
    torch.manual_seed(7)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        loss = t.compute_loss(model, dict(batch))
    metrics = {k: float(sum(v) / len(v)).hex() for k, v in t._metrics["train"].items() if k != "num_tokens"}
    loss.backward()
    tensors[name + ".loss"] = loss.detach()
    out["cases"].append(
        dict(
            name=name,
            family=family,
            whole=rows is whole,
            bf16=bf16,
            settings=settings,
            kept=len(t.train_dataset),
            batch={k: v.tolist() for k, v in batch.items()},
            generator=generator(),
            metrics=metrics,
            grads=parameters(model, lambda p: p.grad),
            norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()},
        )
    )


case("nll")
case("dft", loss_type="dft")
case("whole texts", rows=whole)
case("short", max_length=6)
case("padded", pad_to_multiple_of=8)
case("soft cap", family="gemma2")
case("soft cap, dft", family="gemma2", loss_type="dft")
case("scaled", family="granite")
case("gpt2", family="gpt2")
case("bf16", bf16=True)


def run(name, family="llama", rows=completions, lora=None, **settings):
    """A run of SFTTrainer, and an evaluation of the first eight samples"""
    torch.manual_seed(42)
    model = make(family)
    t = trainer(model, rows, **settings, peft=lora and LoraConfig(task_type="CAUSAL_LM", **lora))
    trained = lambda: {
        n.replace("base_model.model.", "").replace(".default", "").replace(".base_layer", ""): sha(p)
        for n, p in t.model.named_parameters()
        if p.requires_grad
    }
    first = trained()
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
            lora=lora,
            initial=first,
            final=trained(),
            logs=[
                {k: float(v).hex() for k, v in r.items() if keep(k)}
                for r in t.state.log_history
                if "loss" in r or "eval_loss" in r
            ],
        )
    )


run("llama", max_steps=12)
run("llama, accumulated, dft", max_steps=8, gradient_accumulation_steps=2, loss_type="dft", logging_steps=2)
run("whole texts", rows=whole, max_steps=8)
run("gpt2", family="gpt2", max_steps=12)
run("gemma2", family="gemma2", max_steps=8)
run("llama with updates", lora=dict(r=4, lora_alpha=8, lora_dropout=0.1), max_steps=12)
run("llama, bf16", max_steps=10, bf16=True)
run("llama, checkpointing", max_steps=8, gradient_checkpointing=True)
causal.write(str(here / "sft"), out)
