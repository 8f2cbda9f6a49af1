"""Golden values from transformers' AutoModelFor classes over six encoders: python auto.py writes auto.safetensors and
auto.json beside it.

For each encoder and head: initial weights from seed 42, one forward and backward pass, a head drawn on a saved encoder,
and 20 updates of transformers.Trainer. Tensors are stored by the first 16 digits of their sha256, but for inputs,
logits and losses.
"""

import hashlib
import json
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(here, "..", "..", "internal", "modeltest"))
import golden  # first, since it chooses the code paths of libtorch
import tempfile

import torch
import transformers
from goldenfile import save_file
from safetensors.torch import load_file
from tokenizers import Tokenizer, models
from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

VOCAB, SIZES = 60, dict(num_hidden_layers=2, num_attention_heads=4, hidden_size=32, intermediate_size=48)
DISTIL = dict(n_layers=2, n_heads=4, dim=32, hidden_dim=48)
ENCODERS = {  # class prefix: settings, padding id, whether there are token types
    "Bert": (SIZES, 0, True),
    "Roberta": (SIZES, 1, False),
    "DistilBert": (DISTIL, 0, False),
    "XLMRoberta": (SIZES, 1, False),
    "Electra": (dict(SIZES, embedding_size=16), 0, True),
    "MPNet": (SIZES, 1, False),
}
HEADS = {"SequenceClassification": 3, "TokenClassification": 5, "QuestionAnswering": 2, "MaskedLM": 2}
tensors, cases = {}, []


def sha(tensors):
    h = hashlib.sha256()
    for t in tensors:
        h.update(t.detach().contiguous().numpy().tobytes())
    return h.hexdigest()[:16]


def state():
    return sha([torch.get_rng_state()])


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


def rows(n, seed, pad):
    """Texts of 3 to 14 tokens with the labels of all heads."""
    g = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(n):
        length = int(torch.randint(3, 15, (), generator=g))
        ids = torch.randint(5, VOCAB, (length,), generator=g)
        ids[0], ids[-1] = (2, 3) if pad == 0 else (0, 2)
        tokens = torch.randint(0, 5, (length,), generator=g)
        tokens[torch.rand(length, generator=g) < 0.3] = -100
        tokens[0] = tokens[-1] = -100
        tokens[1] = int(ids[1]) % 5
        start = int(torch.randint(0, length, (), generator=g))
        types = torch.zeros(length, dtype=torch.long)
        types[length // 2 :] = 1
        special = torch.zeros(length, dtype=torch.long)
        special[0] = special[-1] = 1
        out.append(
            dict(
                ids=ids,
                types=types,
                special=special,
                tokens=tokens,
                label=int(ids[1]) % 3,
                start=start,
                end=int(torch.randint(start, length, (), generator=g)),
                words=torch.where(torch.rand(length, generator=g) < 0.3, ids, torch.tensor(-100)),
            )
        )
    return out


def features(row, head, typed):
    f = dict(input_ids=row["ids"].tolist())
    if typed:
        f["token_type_ids"] = row["types"].tolist()
    if head == "SequenceClassification":
        f["labels"] = row["label"]
    elif head == "TokenClassification":
        f["labels"] = row["tokens"].tolist()
    elif head == "QuestionAnswering":
        f.update(start_positions=row["start"], end_positions=row["end"])
    else:
        f["special_tokens_mask"] = row["special"].tolist()
    return f


def collator(head, tok):
    if head == "TokenClassification":
        return DataCollatorForTokenClassification(tok)
    if head == "MaskedLM":
        return DataCollatorForLanguageModeling(tok, seed=11)
    return DataCollatorWithPadding(tok)


data = {pad: rows(48, 1, pad) for pad in (0, 1)}
for pad, list_ in data.items():
    for i, row in enumerate(list_):
        for k in ("ids", "types", "special", "tokens", "words"):
            tensors[f"row.{pad}.{i}.{k}"] = row[k].clone()
        tensors[f"row.{pad}.{i}.numbers"] = torch.tensor([row["label"], row["start"], row["end"]])

for prefix, (sizes, pad, typed) in ENCODERS.items():
    make_config = getattr(transformers, prefix + "Config")
    for head, labels in HEADS.items():
        name = prefix + "For" + head
        cls = getattr(transformers, name)

        def config():
            return make_config(vocab_size=VOCAB, max_position_embeddings=40, num_labels=labels, **sizes)

        def make():
            torch.manual_seed(42)
            return cls(config())

        model = make()
        case = dict(
            name=name,
            pad=pad,
            typed=typed,
            head=head,
            generator=state(),
            parameters=[n for n, _ in model.named_parameters()],
            initial={n: sha([p]) for n, p in model.named_parameters()},
        )
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            case["config"] = json.load(open(os.path.join(folder, "config.json")))
            case["saved"] = sorted(load_file(os.path.join(folder, "model.safetensors")))

        batch = [features(r, head, typed) for r in data[pad][:4]]
        if head == "MaskedLM":
            for f, r in zip(batch, data[pad]):
                del f["special_tokens_mask"]
                f["labels"] = r["words"].tolist()
        inputs = (
            DataCollatorForTokenClassification(tokenizer(pad))(batch)
            if head in ("TokenClassification", "MaskedLM")
            else DataCollatorWithPadding(tokenizer(pad))(batch)
        )
        model.train()
        torch.manual_seed(7)
        out = model(**inputs)
        out.loss.backward()
        case["after"] = state()
        case["grads"] = {n: sha([p.grad]) for n, p in model.named_parameters()}
        case["norms"] = {n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()}
        model.eval()
        with torch.no_grad():
            evaluated = model(**inputs)
        logits = lambda o: torch.stack([o.start_logits, o.end_logits], -1) if head == "QuestionAnswering" else o.logits
        tensors[name + ".logits"] = logits(out).detach().contiguous()
        tensors[name + ".eval"] = logits(evaluated).contiguous()
        tensors[name + ".loss"] = out.loss.detach()

        encoder = getattr(make(), cls.base_model_prefix)
        with tempfile.TemporaryDirectory() as folder:  # a head on a saved encoder
            encoder.save_pretrained(folder)
            torch.manual_seed(5)
            fine = cls.from_pretrained(folder, num_labels=labels)
            case["fine"] = {n: sha([p]) for n, p in fine.named_parameters()}
            case["fine_generator"] = state()

        model = make()
        args = TrainingArguments(
            output_dir="/tmp/unused",
            report_to=[],
            use_cpu=True,
            max_steps=20,
            per_device_train_batch_size=4,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
        )
        t = Trainer(
            model=model,
            args=args,
            train_dataset=[features(r, head, typed) for r in data[pad]],
            data_collator=collator(head, tokenizer(pad)),
        )
        t.train()
        log = [r for r in t.state.log_history if "loss" in r]
        case["losses"] = [r["loss"].hex() for r in log]
        case["grad_norms"] = [float(r["grad_norm"]).hex() for r in log]
        case["final"] = {n: sha([p]) for n, p in model.named_parameters()}
        case["final_generator"] = state()
        cases.append(case)

save_file(
    {k: v.contiguous() for k, v in tensors.items()},
    os.path.join(here, "auto.safetensors"),
    metadata={"made with": f"torch {torch.__version__}, transformers {transformers.__version__}"},
)  # one, since their order is not fixed
with open(os.path.join(here, "auto.json"), "w") as f:
    json.dump({"cases": cases}, f, indent=0)
    f.write("\n")
