"""Golden values from TRL's DPOTrainer: python dpo.py writes preferences.jsonl, the folder tokenizer, dpo.json and
dpo.safetensors beside it.

Preferences of texts and of conversations and the tokens that TRL makes of them, batches of its collator, a forward and
backward pass with each loss, and runs of DPOTrainer with a frozen reference and with peft's adapters. Needs trl
1.16.0, transformers 5.17.0, peft 0.21.2, torch 2.11.0.
"""

import json
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
from peft import LoraConfig, get_peft_model
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer
from trl.trainer.dpo_trainer import DataCollatorForPreference

datasets.disable_progress_bars()
out = {"runs": [], "cases": []}

# A tokenizer of bytes that begins texts with <s>, and a chat template.
special = ["<s>", "</s>", "<|user|>", "<|assistant|>"]
vocab = {
    t: i for i, t in enumerate(special + sorted(pre_tokenizers.ByteLevel.alphabet()) + ["he", "in", "Ġa", "Ġb", "re"])
}
t = Tokenizer(models.BPE(vocab, [("h", "e"), ("i", "n"), ("Ġ", "a"), ("Ġ", "b"), ("r", "e")]))
t.add_special_tokens([AddedToken(s, special=True) for s in special])
t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
template = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.role == 'assistant' %}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if think %}?{% endif %}{% endif %}"
)
PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>", chat_template=template).save_pretrained(
    here / "tokenizer"
)
tok = AutoTokenizer.from_pretrained(here / "tokenizer")
VOCAB = len(vocab)

# Texts, and conversations.
words = "the red fox ran home in rain and sleet; nobody heard her bark again".split()
draw = random.Random(3)
say = lambda n: " ".join(draw.choice(words) for _ in range(n))
texts = [
    {
        "prompt": say(draw.randint(1, 5)),
        "chosen": " " + say(draw.randint(1, 4)),
        "rejected": " " + say(draw.randint(1, 6)),
    }
    for _ in range(40)
]
texts[1]["chosen"] += "</s>"  # has its end already
texts[2]["prompt"] += " "  # the space goes to the answers
texts[5]["prompt"] = say(14)  # fills max_length
texts[7]["rejected"] = " " + say(20)
user, assistant = lambda s: {"role": "user", "content": s}, lambda s: {"role": "assistant", "content": s}
chats = [{"prompt": [user(say(2))], "chosen": [assistant(say(3))], "rejected": [assistant(say(2))]} for _ in range(4)]
chats.append(
    {
        "prompt": [user("a"), assistant("b"), user(say(3))],
        "chosen": [assistant("Größe 🦜")],
        "rejected": [assistant("")],
    }
)
chats.append(
    {
        "prompt": [user("a")],
        "chosen": [assistant("b")],
        "rejected": [assistant("be")],
        "chat_template_kwargs": {"think": True},
    }
)
implicit = [{"chosen": "the red fox ran", "rejected": "the red hen"}, {"chosen": "ab cd", "rejected": "ab ce"}]
implicit_chats = [
    {
        "chosen": [user("a"), assistant("b"), user("c"), assistant("d")],
        "rejected": [user("a"), assistant("b"), user("c"), assistant("e")],
    }
]
with open(here / "preferences.jsonl", "w", encoding="utf-8") as f:
    f.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in texts + chats + implicit + implicit_chats)

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
    "llama": ("LlamaForCausalLM", SIZES),
    "gemma2": (
        "Gemma2ForCausalLM",
        SIZES | dict(head_dim=8, final_logit_softcapping=2.0, pad_token_id=0, attn_logit_softcapping=None),
    ),
    "granite": ("GraniteForCausalLM", SIZES | dict(logits_scaling=3.0, pad_token_id=0)),
    "gpt2": (
        "GPT2LMHeadModel",
        dict(vocab_size=VOCAB, n_positions=128, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1),
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


out["models"] = {n: make(n, 42).config.to_diff_dict() for n in MODELS}
out["initial"] = {n: {s: parameters(make(n, s)) for s in (42, 43)} for n in MODELS}


def trainer(model, rows, ref="default", peft=None, **settings):
    if ref == "default":
        ref = None if peft or hasattr(model, "peft_config") else make("llama", 43)
    settings = (
        dict(max_length=40, learning_rate=1e-3, logging_steps=1, gradient_checkpointing=False, bf16=False) | settings
    )
    args = DPOConfig(
        output_dir="/tmp/unused",
        report_to=[],
        use_cpu=True,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=8,
        save_strategy="no",
        disable_tqdm=True,
        **settings,
    )
    return DPOTrainer(
        model=model,
        ref_model=ref,
        args=args,
        train_dataset=datasets.Dataset.from_list(rows),
        eval_dataset=datasets.Dataset.from_list(rows[:5] + rows[6:9]),
        processing_class=tok,
        peft_config=peft,
    )


tokens = lambda set: [[r["prompt_ids"], r["chosen_ids"], r["rejected_ids"]] for r in set]
out["tokens"] = [
    row
    for rows in (texts, chats[:-1], chats[-1:], implicit, implicit_chats)
    for row in tokens(trainer(make("llama", 42), rows, max_length=None).train_dataset)
]
kept = trainer(make("llama", 42), texts)
out["kept"] = len(kept.train_dataset)
out["batches"] = []
for settings in [
    dict(),
    dict(max_length=20),
    dict(max_length=20, truncation_mode="keep_end"),
    dict(max_length=30, pad_to_multiple_of=8),
]:
    b = DataCollatorForPreference(pad_token_id=tok.pad_token_id or 1, **settings)(
        [kept.train_dataset[i] for i in range(4)]
    )
    out["batches"].append(settings | {k: v.tolist() for k, v in b.items()} | {"width": b["input_ids"].shape[1]})


def case(name, family="llama", bf16=False, **settings):
    """A forward and backward pass of the first four texts"""
    model = make(family, 42)
    t = trainer(model, texts[:8], ref=make(family, 43), **settings)
    batch = t.data_collator([t.train_dataset[i] for i in range(4)])
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
            bf16=bf16,
            settings=settings,
            generator=generator(),
            metrics=metrics,
            grads=parameters(model, lambda p: p.grad),
            norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()},
        )
    )


for loss in [
    "sigmoid",
    "hinge",
    "ipo",
    "nca_pair",
    "robust",
    "bco_pair",
    "sppo_hard",
    "aot",
    "aot_unpaired",
    "apo_zero",
    "apo_down",
    "discopop",
    "sft",
    "sigmoid_norm",
]:
    case(loss, loss_type=loss, beta=0.2)
case("smooth robust", loss_type="robust", label_smoothing=0.1)
case("smooth exo_pair", loss_type="exo_pair", label_smoothing=1e-3)
case("smooth aot", loss_type="aot", label_smoothing=0.1)
case("smooth aot_unpaired", loss_type="aot_unpaired", label_smoothing=0.2)
case("mpo", loss_type=["sigmoid", "bco_pair", "sft"], loss_weights=[0.8, 0.2, 1.0])
case("ld", ld_alpha=0.5)
case("wpo", use_weighting=True)
for divergence in ["forward_kl", "js_divergence", "alpha_divergence"]:
    case(divergence, f_divergence_type=divergence)
case("alpha 0.8", f_divergence_type="alpha_divergence", f_alpha_divergence_coef=0.8, loss_type="ipo")
case("long", max_length=None)
case("soft cap", family="gemma2")
case("scaled", family="granite")
case("gpt2", family="gpt2")
case("bf16", bf16=True)
case("bf16 gpt2", family="gpt2", bf16=True)


def run(name, family="llama", lora=None, **settings):
    """A run of DPOTrainer over all texts, and an evaluation of the first eight"""
    model = make(family, 42)
    if lora:
        torch.manual_seed(42)
        model = get_peft_model(model, LoraConfig(**lora)) if lora.pop("loaded", False) else model
        hasattr(model, "peft_config") or settings.update(peft=LoraConfig(**lora))
    ref = None if lora else make(family, 42)
    t = trainer(model, texts, ref=ref, **settings)
    peft = settings.pop("peft", None)
    trained = lambda: {
        n.replace("base_model.model.", "").replace(".default", "").replace(".base_layer", ""): sha(p)
        for n, p in t.model.named_parameters()
        if p.requires_grad
    }
    first = trained()
    t.train()
    t.evaluate()
    log = t.state.log_history
    out["runs"].append(
        dict(
            name=name,
            family=family,
            settings=settings,
            lora=peft and lora,
            initial=first,
            final=trained(),
            logs=[
                {
                    k: float(v).hex()
                    for k, v in r.items()
                    if "runtime" not in k
                    and "per_second" not in k
                    and "num_tokens" not in k
                    and k not in ("epoch", "step", "total_flos", "train_loss")
                }
                for r in log
                if "loss" in r or "eval_loss" in r
            ],
        )
    )


run("llama", max_steps=12)
run(
    "llama, accumulated",
    max_steps=8,
    gradient_accumulation_steps=2,
    beta=0.3,
    loss_type=["sigmoid", "sft"],
    loss_weights=[1.0, 0.5],
    logging_steps=2,
)
run("gpt2", family="gpt2", max_steps=12)
run("llama with updates", lora=dict(r=4, lora_alpha=8, lora_dropout=0.1, task_type="CAUSAL_LM"), max_steps=12)
run(
    "gpt2 with updates, ipo",
    family="gpt2",
    lora=dict(r=4, task_type="CAUSAL_LM"),
    max_steps=10,
    loss_type="ipo",
    precompute_ref_log_probs=True,
)
run("llama, bf16", max_steps=10, bf16=True)
run("llama, checkpointing", max_steps=10, gradient_checkpointing=True)
causal.write(str(here / "dpo"), out)
