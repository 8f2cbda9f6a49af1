"""Golden values from TRL's RewardTrainer: python reward.py writes reward.json and reward.safetensors beside it.

The tokens that TRL makes of the preferences of models/dpo/testdata, batches of its collator, forward and backward
passes, and runs of RewardTrainer, of decoders and an encoder, with peft's adapters too. Needs trl 1.16.0,
transformers 5.17.0, peft 0.21.2, torch 2.11.0.
"""

import json
import os
import pathlib
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
from trl import RewardConfig, RewardTrainer

datasets.disable_progress_bars()
preferences = here.parents[1] / "dpo/testdata"
rows = [json.loads(line) for line in open(preferences / "preferences.jsonl", encoding="utf-8")]
texts = [dict(row, margin=i % 3 / 4) for i, row in enumerate(rows[:40])]
out = {"tokens": [], "batches": [], "cases": [], "runs": []}

tokenizer = lambda: AutoTokenizer.from_pretrained(preferences / "tokenizer")
VOCAB = len(tokenizer())
SIZES = dict(
    vocab_size=VOCAB,
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
    "llama": ("Llama", SIZES),
    "gemma2": (
        "Gemma2",
        SIZES | dict(head_dim=8, final_logit_softcapping=2.0, pad_token_id=0, attn_logit_softcapping=None),
    ),
    "gpt2": (
        "GPT2",
        dict(vocab_size=VOCAB, n_positions=128, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1),
    ),
    "bert": (
        "Bert",
        dict(
            vocab_size=VOCAB,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=48,
            max_position_embeddings=128,
        ),
    ),
}


def make(name, seed=42):
    torch.manual_seed(seed)
    cls = getattr(transformers, MODELS[name][0] + "ForSequenceClassification")
    model = cls(cls.config_class(num_labels=1, **MODELS[name][1]))
    with torch.no_grad():  # so that rewards are far apart
        for p in model.parameters():
            if p.dim() == 2:
                p.mul_(4)
    return model


out["models"] = {n: make(n).config.to_diff_dict() for n in MODELS}
out["initial"] = {n: parameters(make(n)) for n in MODELS}


def trainer(model, rows, margins=False, peft=None, **settings):
    rows = [{k: v for k, v in row.items() if k != "margin" or margins} for row in rows]
    settings = (
        dict(max_length=40, learning_rate=1e-3, logging_steps=1, gradient_checkpointing=False, bf16=False) | settings
    )
    args = RewardConfig(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=8,
        save_strategy="no",
        disable_tqdm=True,
        **settings,
    )
    return RewardTrainer(
        model=model,
        args=args,
        train_dataset=datasets.Dataset.from_list(rows),
        eval_dataset=datasets.Dataset.from_list(rows[:8]),
        processing_class=tokenizer(),
        peft_config=peft,
    )


for part in (texts, rows[40:45], rows[45:46], rows[46:48], rows[48:]):
    out["tokens"] += [
        [row["chosen_ids"], row["rejected_ids"]] for row in trainer(make("llama"), part, max_length=None).train_dataset
    ]
kept = trainer(make("llama"), texts, margins=True)
out["kept"] = len(kept.train_dataset)
for multiple in (None, 8):
    kept.data_collator.pad_to_multiple_of = multiple
    b = kept.data_collator([kept.train_dataset[i] for i in range(4)])
    out["batches"].append(dict(pad_to_multiple_of=multiple, **{k: v.tolist() for k, v in b.items()}))


def case(name, family="llama", margins=False, **settings):
    """A forward and backward pass of the first four texts"""
    model = make(family)
    t = trainer(model, texts[:8], margins=margins, **settings)
    batch = t.data_collator([t.train_dataset[i] for i in range(4)])
    wrapped = t.accelerator.prepare(model)  # which is what autocast runs in
    model.train()
    torch.manual_seed(7)
    loss = t.compute_loss(wrapped, batch)
    metrics = {k: float(sum(v) / len(v)).hex() for k, v in t._metrics["train"].items() if k != "num_tokens"}
    loss.backward()
    tensors[name + ".loss"] = loss.detach()
    out["cases"].append(
        dict(
            name=name,
            family=family,
            margins=margins,
            settings=settings,
            generator=generator(),
            metrics=metrics,
            grads=parameters(model, lambda p: p.grad),
            norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()},
        )
    )


case("llama")
case("margins", margins=True)
case("centered", center_rewards_coefficient=0.01)
case("centered margins", margins=True, center_rewards_coefficient=0.3)
case("gemma2", family="gemma2")
case("gpt2", family="gpt2")
case("gpt2 with dropout", family="gpt2", disable_dropout=False)
case("bert", family="bert", margins=True)
case("bf16", bf16=True, center_rewards_coefficient=0.1)
case("bf16 gpt2", family="gpt2", bf16=True)


def run(name, family="llama", margins=False, lora=None, **settings):
    """A run of RewardTrainer over all texts, and an evaluation of the first eight"""
    t = trainer(make(family), texts, margins=margins, peft=lora and LoraConfig(**lora), **settings)
    plain = lambda n: (
        n.replace("base_model.model.", "")
        .replace(".default", "")
        .replace(".base_layer", "")
        .replace(".modules_to_save", "")
    )
    trained = lambda: {plain(n): sha(p) for n, p in t.model.named_parameters() if p.requires_grad}
    first = trained()
    t.train()
    t.evaluate()
    log = t.state.log_history
    skipped = ("epoch", "step", "total_flos", "train_loss")
    out["runs"].append(
        dict(
            name=name,
            family=family,
            margins=margins,
            settings=settings,
            lora=lora,
            initial=first,
            final=trained(),
            pad=t.model.config.pad_token_id,
            logs=[
                {
                    k: float(v).hex()
                    for k, v in r.items()
                    if "runtime" not in k and "per_second" not in k and "num_tokens" not in k and k not in skipped
                }
                for r in log
                if "loss" in r or "eval_loss" in r
            ],
        )
    )


run("llama", max_steps=20)
run("llama, margins", margins=True, max_steps=20, center_rewards_coefficient=0.01)
run("gpt2, accumulated", family="gpt2", margins=True, max_steps=10, gradient_accumulation_steps=2, logging_steps=2)
run("gpt2 with dropout", family="gpt2", max_steps=12, disable_dropout=False)
run(
    "bert", family="bert", max_steps=12, center_rewards_coefficient=0.1
)  # without it, rounding alone decides how high all rewards are, by the bias of the classifier
run("llama with updates", lora=dict(r=4, lora_alpha=8, lora_dropout=0.1, task_type="SEQ_CLS"), max_steps=12)
run("gpt2 with updates", family="gpt2", lora=dict(r=4, task_type="SEQ_CLS", target_modules="all-linear"), max_steps=12)
run("llama, bf16", max_steps=10, bf16=True)
run("llama, checkpointing", max_steps=10, gradient_checkpointing=True)
causal.write(str(here / "reward"), out)
