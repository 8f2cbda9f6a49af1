"""Golden values from transformers' models with weights of 16 bits: python dtype.py writes dtype.safetensors and
dtype.json beside it.

For each of some models: initial weights from seed 42, a forward and backward pass of which the loss is the mean of the
squared logits, and a run of transformers.Trainer over the texts of models/auto/testdata/ auto.safetensors. Needs peft
0.21.2.
"""

import os
import pathlib
import sys

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "modeltest"))
import causal  # first, since it chooses the code paths of libtorch
import torch
import transformers
from causal import generator, sha
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)
from tokenizers import Tokenizer, models

VOCAB = 60
ENCODER = dict(
    vocab_size=VOCAB,
    num_hidden_layers=2,
    num_attention_heads=4,
    hidden_size=32,
    intermediate_size=48,
    max_position_embeddings=40,
)
DISTIL = dict(vocab_size=VOCAB, n_layers=2, n_heads=4, dim=32, hidden_dim=48, max_position_embeddings=40)
LLAMA = dict(ENCODER, num_key_value_heads=2, eos_token_id=3, pad_token_id=0)
GPT2 = dict(
    vocab_size=VOCAB, n_positions=40, n_embd=32, n_layer=2, n_head=4, bos_token_id=3, eos_token_id=3, pad_token_id=0
)
T5 = dict(
    vocab_size=VOCAB, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, eos_token_id=3, decoder_start_token_id=0
)
LORA = dict(
    r=4, lora_alpha=8, lora_dropout=0.1, target_modules="all-linear", task_type="CAUSAL_LM", modules_to_save=["lm_head"]
)
MODELS = [  # class, configuration, dtype, attention, padding id, settings of LoraConfig
    ("BertForSequenceClassification", dict(ENCODER, num_labels=3), "bfloat16", "sdpa", 0, None),
    ("BertForSequenceClassification", dict(ENCODER, num_labels=3), "float16", "eager", 0, None),
    ("RobertaForTokenClassification", dict(ENCODER, num_labels=5), "bfloat16", "eager", 1, None),
    ("DistilBertForQuestionAnswering", DISTIL, "bfloat16", "sdpa", 0, None),
    ("ElectraForMaskedLM", dict(ENCODER, embedding_size=16), "bfloat16", "eager", 0, None),
    ("MPNetForSequenceClassification", dict(ENCODER, num_labels=3), "bfloat16", "eager", 1, None),
    ("GPT2LMHeadModel", GPT2, "bfloat16", "sdpa", 0, None),
    ("GPT2LMHeadModel", GPT2, "bfloat16", "eager", 0, None),
    ("LlamaForCausalLM", LLAMA, "bfloat16", "sdpa", 0, None),
    ("LlamaForCausalLM", LLAMA, "bfloat16", "eager", 0, None),
    ("LlamaForCausalLM", LLAMA, "float16", "sdpa", 0, None),
    ("GemmaForCausalLM", dict(LLAMA, head_dim=8), "bfloat16", "sdpa", 0, None),
    ("T5ForConditionalGeneration", T5, "bfloat16", "sdpa", 0, None),
    ("T5ForConditionalGeneration", T5, "bfloat16", "eager", 0, None),
    ("LlamaForCausalLM", LLAMA, "bfloat16", "sdpa", 0, LORA),
    ("LlamaForCausalLM", LLAMA, "float16", "eager", 0, LORA),
]
tensors, out = {}, {"models": []}
stored = load_file(here.parents[2] / "auto/testdata/auto.safetensors")


def plain(name):
    """The name that a parameter has in the model itself"""
    for part in ("base_model.model.", ".default", ".base_layer", ".modules_to_save"):
        name = name.replace(part, "")
    return name


def own(model, of=lambda p: p):
    return {
        plain(n): sha(of(p).detach().contiguous().view(-1).view(torch.uint8))
        for n, p in model.named_parameters()
        if "original_module" not in n and of(p) is not None
    }


def rows(pad):
    for i in range(48):
        row = {k: stored[f"row.{pad}.{i}.{k}"].tolist() for k in ("ids", "special", "tokens", "words", "numbers")}
        yield row


def features(row, cls):
    ids, (label, start, end) = row["ids"], row["numbers"]
    if cls.endswith("SequenceClassification"):
        return dict(input_ids=ids, labels=label)
    if cls.endswith("TokenClassification"):
        return dict(input_ids=ids, labels=row["tokens"])
    if cls.endswith("QuestionAnswering"):
        return dict(input_ids=ids, start_positions=start, end_positions=end)
    if cls.endswith("MaskedLM"):
        return dict(input_ids=ids, special_tokens_mask=row["special"])
    if cls.startswith("T5"):
        return dict(input_ids=ids, labels=ids[1:])
    return dict(input_ids=ids)


def tokenizer(pad):
    names = (
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] if pad == 0 else ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
    )
    vocab = {n: i for i, n in enumerate(names + [f"w{i}" for i in range(5, VOCAB)])}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocab, unk_token="[UNK]")),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


def collator(cls, tok):
    if cls.endswith("TokenClassification"):
        return DataCollatorForTokenClassification(tok)
    if cls.endswith("MaskedLM"):
        return DataCollatorForLanguageModeling(tok, seed=11)
    if cls.startswith("T5"):
        return DataCollatorForSeq2Seq(tok)
    if "LM" in cls:
        return DataCollatorForLanguageModeling(tok, mlm=False)
    return DataCollatorWithPadding(tok)


for cls, config, dtype, attention, pad, lora in MODELS:
    kind = getattr(transformers, cls)
    name = f"{cls} {dtype} {attention}" + (" with updates" if lora else "")

    def make():
        torch.manual_seed(42)
        model = kind._from_config(
            kind.config_class(**config), dtype=getattr(torch, dtype), attn_implementation=attention
        )
        return get_peft_model(model, LoraConfig(**lora)) if lora else model

    model = make()
    entry = dict(
        name=name,
        architecture=cls,
        dtype=dtype,
        attention=attention,
        pad=pad,
        lora=bool(lora),
        initial=own(model),
        generator=generator(),
        config=kind.config_class(**config).to_diff_dict(),
    )
    batch = list(rows(pad))[:4]
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(r["ids"]) for r in batch], batch_first=True, padding_value=pad)
    mask = torch.nn.utils.rnn.pad_sequence(
        [torch.ones(len(r["ids"]), dtype=torch.int64) for r in batch], batch_first=True
    )
    given = dict(input_ids=ids, attention_mask=mask)
    if cls.startswith("T5"):
        given["decoder_input_ids"] = ids[:, :3].contiguous()

    def logits():
        o = model(**given)
        return torch.stack([o.start_logits, o.end_logits], -1) if "Question" in cls else o.logits

    model.train()
    torch.manual_seed(7)
    trained = logits()
    trained.float().square().mean().backward()
    entry["after"] = generator()
    entry["grads"] = own(model, lambda p: p.grad)
    entry["norms"] = {
        plain(n): float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters() if p.grad is not None
    }
    model.eval()
    with torch.no_grad():
        tensors.update({name + ".logits": trained.detach(), name + ".eval": logits()})

    if dtype == "bfloat16" or lora:
        model = make()
        args = TrainingArguments(
            output_dir="/tmp/unused",
            report_to=[],
            use_cpu=True,
            max_steps=10,
            per_device_train_batch_size=4,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
        )
        t = Trainer(
            model=model,
            args=args,
            train_dataset=[features(r, cls) for r in rows(pad)],
            data_collator=collator(cls, tokenizer(pad)),
        )
        t.train()
        log = [r for r in t.state.log_history if "loss" in r]
        entry.update(
            losses=[r["loss"].hex() for r in log],
            grad_norms=[float(r["grad_norm"]).hex() for r in log],
            final=own(model),
        )
    out["models"].append(entry)

causal.tensors.clear()
causal.tensors.update(tensors)
causal.write(str(here / "dtype"), out)
