"""What the golden files of encoders share that stand in packages of their own, for the scripts in the testdata of
packages modernbert, deberta, vit and convnext, and of others, which call write.

For each model and head: initial weights from seed 42, forward and backward passes, a head drawn on a saved encoder, and
20 updates of transformers.Trainer. Tensors are stored by the first 8 digits of their sha256, in the order of the
parameters, but for inputs, losses and the first logits of each token.

Needs transformers 5.17.0 and torch 2.11.0.
"""

import hashlib
import json
import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "scripts/golden"))
import pins  # noqa: E402, F401

import tempfile

import torch
import transformers
from goldenfile import save_file
from safetensors.torch import load_file
from tokenizers import Tokenizer, models
from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorForMultipleChoice,
    DataCollatorForTokenClassification,
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

torch.set_num_threads(1)
VOCAB, TEXTS, LONGEST = 60, 48, 14
LABELS = {
    "SequenceClassification": 3,
    "MultipleChoice": 2,
    "TokenClassification": 5,
    "QuestionAnswering": 2,
    "MaskedLM": 2,
    "ImageClassification": 3,
    "SemanticSegmentation": 4,  # the last is in no map
}
OF_PICTURES = ("ImageClassification", "SemanticSegmentation")
NAMES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
tok = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(
        models.WordLevel({n: i for i, n in enumerate(NAMES + [f"w{i}" for i in range(5, VOCAB)])}, unk_token="[UNK]")
    ),
    pad_token="[PAD]",
    unk_token="[UNK]",
    cls_token="[CLS]",
    sep_token="[SEP]",
    mask_token="[MASK]",
)


def sha(t):
    t = t.detach().contiguous()
    return hashlib.sha256((t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes()).hexdigest()[:8]


def state():
    return sha(torch.get_rng_state())


def hashes(model, of=lambda p: p):
    return ["" if of(p) is None else sha(of(p)) for p in model.parameters()]


def statistics(model):
    """The running statistics of a model; positions are buffers too, but never change"""
    return [sha(b) for n, b in model.named_buffers() if not n.endswith(("position_ids", "position_index"))]


def rows():
    """Texts of 3 to 14 tokens with the labels of all heads"""
    g, out = torch.Generator().manual_seed(1), []
    for _ in range(TEXTS):
        length = int(torch.randint(3, LONGEST + 1, (), generator=g))
        ids = torch.randint(5, VOCAB, (length,), generator=g)
        ids[0], ids[-1] = 2, 3
        tokens = torch.randint(0, 5, (length,), generator=g)
        tokens[torch.rand(length, generator=g) < 0.3] = -100
        tokens[0] = tokens[-1] = -100
        tokens[1] = int(ids[1]) % 5
        start = int(torch.randint(0, length, (), generator=g))
        types = torch.zeros(length, dtype=torch.long)
        types[length // 2 :] = 1
        out.append(
            dict(
                ids=ids,
                types=types,
                tokens=tokens,
                label=int(ids[1]) % 3,
                start=start,
                end=int(torch.randint(start, length, (), generator=g)),
                words=torch.where(torch.rand(length, generator=g) < 0.3, ids, torch.tensor(-100)),
            )
        )
    return out


data = rows()
tensors = {
    k: torch.stack([torch.nn.functional.pad(r[k], (0, LONGEST - len(r[k]))) for r in data])
    for k in ("ids", "types", "tokens", "words")
}
tensors["numbers"] = torch.tensor([[len(r["ids"]), r["label"], r["start"], r["end"]] for r in data])


def resized(row, n):
    """A text of n tokens, as Go cuts or fills it"""
    out = dict(row)
    for k, fill in dict(ids=5, types=1, tokens=-100, words=-100).items():
        out[k] = torch.cat([row[k], torch.full((n,), fill)])[:n]
    out["words"][1] = out["ids"][1]
    out["start"] = out["end"] = 1
    return out


def choices(values):
    """What each of three choices has of a text: the first all, the others less of its middle"""
    return [torch.cat([values[:1], values[1:-1][k:], values[-1:]]).tolist() for k in range(3)]


def features(row, head, typed, words=False):
    if head == "MultipleChoice":
        f = dict(input_ids=choices(row["ids"]), labels=row["label"])
        return f | dict(token_type_ids=choices(row["types"])) if typed else f
    f = dict(input_ids=row["ids"].tolist())
    if typed:
        f["token_type_ids"] = row["types"].tolist()
    if head == "SequenceClassification":
        f["labels"] = row["label"]
    elif head == "TokenClassification":
        f["labels"] = row["tokens"].tolist()
    elif head == "QuestionAnswering":
        f.update(start_positions=row["start"], end_positions=row["end"])
    elif words:
        f["labels"] = row["words"].tolist()
    else:
        f["special_tokens_mask"] = [1] + [0] * (len(row["ids"]) - 2) + [1]
    return f


def collator(head, masking=True):
    if head == "MaskedLM" and masking:
        return DataCollatorForLanguageModeling(tok, seed=11)
    if head in ("TokenClassification", "MaskedLM"):
        return DataCollatorForTokenClassification(tok)
    if head == "MultipleChoice":
        return DataCollatorForMultipleChoice(tok)
    return DataCollatorWithPadding(tok)


# The names of weights in files, which transformers 5 changes in memory.
NAMES_IN_FILES = {
    "Segformer": {
        r"\.stages\.(\d+)\.patch_embeddings": r".encoder.patch_embeddings.\1",
        r"\.stages\.(\d+)\.blocks": r".encoder.block.\1",
        r"\.stages\.(\d+)\.layer_norm": r".encoder.layer_norm.\1",
        r"attention\.q_proj": "attention.self.query",
        r"attention\.k_proj": "attention.self.key",
        r"attention\.v_proj": "attention.self.value",
        r"attention\.o_proj": "attention.output.dense",
        r"attention\.sequence_reduction\.sequence_reduction": "attention.self.sr",
        r"attention\.sequence_reduction\.layer_norm": "attention.self.layer_norm",
        r"mlp\.fc": "mlp.dense",
        "layernorm_before": "layer_norm_1",
        "layernorm_after": "layer_norm_2",
        "linear_projections": "linear_c",
    }
}
NAMES_IN_FILES["ViT"] = NAMES_IN_FILES["DeiT"] = {
    r"\.layers\.(\d+)\.": r".encoder.layer.\1.",
    r"attention\.q_proj": "attention.attention.query",
    r"attention\.k_proj": "attention.attention.key",
    r"attention\.v_proj": "attention.attention.value",
    r"attention\.o_proj": "attention.output.dense",
    r"mlp\.fc1": "intermediate.dense",
    r"mlp\.fc2": "output.dense",
}
NAMES_IN_FILES["Swin"] = {
    r"attention\.q_proj": "attention.self.query",
    r"attention\.k_proj": "attention.self.key",
    r"attention\.v_proj": "attention.self.value",
    r"attention\.relative_position_bias\.": "attention.self.",
    r"attention\.o_proj": "attention.output.dense",
    r"mlp\.fc1": "intermediate.dense",
    r"mlp\.fc2": "output.dense",
}


def in_files(name, kind):
    for pattern, to in NAMES_IN_FILES.get(kind, {}).items():
        name = re.sub(pattern, to, name)
    return name


def pictures(channels, height, width):
    """Pictures of bytes, of which those of a class are brighter in their own third of the rows, and of each the pixels
    that a model sees and the label
    """
    g = torch.Generator().manual_seed(2)
    raw = torch.randint(0, 192, (TEXTS, channels, height, width), generator=g, dtype=torch.uint8)
    labels = torch.arange(TEXTS) % 3
    for picture, label in zip(raw, labels):
        picture[:, label * height // 3 : (label + 1) * height // 3] += 63
    tensors[f"pictures.{channels}x{height}x{width}"] = raw
    return [dict(pixel_values=p.float() / 128 - 1, labels=int(label)) for p, label in zip(raw, labels)]


def mapped(channels, height, width, classes):
    """The pictures with a map of classes instead of a label: in each third of the rows another one, and 255 for a
    tenth of the pixels. With one class there are 0 and 1.
    """
    made = pictures(channels, height, width)
    g = torch.Generator().manual_seed(3)
    maps = torch.stack([(torch.arange(height) * 3 // height + m["labels"]) % 3 for m in made])
    maps = (maps % max(2, classes))[:, :, None].repeat(1, 1, width)
    maps[torch.rand(maps.shape, generator=g) < 0.1] = 255
    tensors[f"maps.{classes}.{height}x{width}"] = maps.to(torch.uint8)
    return [m | dict(labels=labels) for m, labels in zip(made, maps)]


def write(path, prefix, list_):
    """Writes path.safetensors and path.json. prefix is what the classes begin with. Each of list_ is a name, settings,
    the heads, the cases by name, whether there is a run of Trainer and a head on a saved encoder, and what its
    classes begin with instead of prefix
    """
    out = []
    if list_[0][2][0] in OF_PICTURES:
        tensors.clear()
    for label, settings, heads, cases, whole, *own in list_:
        kind = own[0] if own else prefix
        typed = settings.get("type_vocab_size", 0) > 0
        for head in heads:
            cls = getattr(transformers, f"{kind}For{head}")
            seen = head in OF_PICTURES
            sides = settings.get("image_size", 24)  # ResNet has no image_size
            size = [settings.get("num_channels", 3), *(sides if isinstance(sides, list) else [sides, sides])]
            known = {k: v for k, v in settings.items() if k != "image_size" or kind != "Segformer"}  # which has none

            def samples(*size):
                if head == "SemanticSegmentation":
                    return mapped(*size, settings.get("num_labels", LABELS[head]))
                return pictures(*size)

            def make(attention=None, dtype=torch.float32):
                torch.manual_seed(42)
                config = getattr(transformers, kind + "Config")(
                    **dict({} if seen else dict(vocab_size=VOCAB), num_labels=LABELS[head]) | known
                )
                return cls._from_config(config, attn_implementation=attention, dtype=dtype)

            model = make()
            entry = dict(
                name=f"{label}, {head}",
                architecture=cls.__name__,
                head=head,
                typed=typed,
                generator=state(),
                parameters=[in_files(n, kind) for n, _ in model.named_parameters()],
                initial=hashes(model),
                cases=[],
            )
            if seen and "image_size" not in known:
                entry["size"] = size
            with tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder)
                entry["config"] = json.load(open(os.path.join(folder, "config.json")))
                entry["saved"] = sorted(load_file(os.path.join(folder, "model.safetensors")))

            def logits(o):
                return torch.stack([o.start_logits, o.end_logits], -1) if head == "QuestionAnswering" else o.logits

            for name, how in cases.items():
                model = make(how.get("attention"), getattr(torch, how.get("dtype", "float32"))).train()
                if how.get("checkpointing"):
                    model.gradient_checkpointing_enable()
                length = how.get("length", 0)
                if seen:
                    batch = default_data_collator(samples(size[0], *([length, length] if length else size[1:]))[:4])
                    batch["pixel_values"] = batch["pixel_values"].to(model.dtype)
                    if kind in ("ViT", "DeiT", "Siglip") or settings.get("use_absolute_embeddings"):
                        batch["interpolate_pos_encoding"] = length > 0
                else:
                    batch = collator(head, masking=False)(
                        [features(resized(r, length) if length else r, head, typed, words=True) for r in data[:4]]
                    )
                torch.manual_seed(7)
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=how.get("bf16", False)):
                    result = model(**batch)
                result.loss.backward()
                after, buffers = state(), statistics(model)
                model.eval()
                with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=how.get("bf16", False)):
                    evaluated = logits(model(**batch))
                key = f"{entry['name']}, {name}"
                tensors.update(
                    {
                        key + ".logits": logits(result).detach()[..., :5].clone(),
                        key + ".eval": evaluated[..., :5].clone(),
                        key + ".loss": result.loss.detach(),
                    }
                )
                entry["cases"].append(
                    dict(
                        dict(
                            name=name,
                            generator=after,
                            logits=sha(logits(result)),
                            eval=sha(evaluated),
                            grads=hashes(model, lambda p: p.grad),
                            norms=[
                                0.0 if p.grad is None else float(f"{p.grad.double().norm():.4g}")
                                for p in model.parameters()
                            ],
                        ),
                        **how,
                    )
                )
                if buffers and seen:
                    entry["cases"][-1]["buffers"] = buffers
            if whole and getattr(model.config, "legacy", True):  # else from_pretrained of transformers 5.17 fails
                if kind in ("CLIP", "Siglip"):  # a classifier has only one half of the encoder
                    encoder = getattr(transformers, kind + "Model")(model.config)
                    encoder.vision_model = make().vision_model
                else:
                    encoder = getattr(make(), cls.base_model_prefix)
                with tempfile.TemporaryDirectory() as folder:
                    encoder.save_pretrained(folder)
                    torch.manual_seed(5)
                    entry.update(
                        fine=hashes(cls.from_pretrained(folder, num_labels=settings.get("num_labels", LABELS[head]))),
                        fine_generator=state(),
                    )
            if whole:
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
                    train_dataset=samples(*size) if seen else [features(r, head, typed) for r in data],
                    data_collator=default_data_collator if seen else collator(head),
                )
                t.train()
                log = [r for r in t.state.log_history if "loss" in r]
                entry.update(
                    losses=[r["loss"].hex() for r in log],
                    grad_norms=[float(r["grad_norm"]).hex() for r in log],
                    final=hashes(model),
                    final_generator=state(),
                )
                if seen and statistics(model):
                    entry["final_buffers"] = statistics(model)
            out.append(entry)
    save_file(
        {k: v.contiguous() for k, v in tensors.items()},
        path + ".safetensors",
        metadata={"made with": f"torch {torch.__version__}, transformers {transformers.__version__}"},
    )
    with open(path + ".json", "w") as f:
        json.dump({"models": out}, f)
        f.write("\n")
