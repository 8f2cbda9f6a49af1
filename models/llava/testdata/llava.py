"""Golden values from transformers' LlavaForConditionalGeneration and its processor: python llava.py writes
llava.safetensors, llava.json and the folder processor beside it.

For each of some models: initial weights from seed 42, forward and backward passes, one with an adapter of peft, a run
of transformers.Trainer with an evaluation, and what generate adds to several prompts. For the processor: what it makes
of conversations with images.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(here.parents[1] / "internal/modeltest"))
os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
import causal  # first, since it chooses the code paths of libtorch
import encoder as pictured
import peft
import torch
import transformers
from causal import generator, sha, tensors
from PIL import Image
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors
from transformers import (
    CLIPImageProcessorPil,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

transformers.utils.logging.disable_progress_bar()
SIDE, PATCHES, IMAGE = 8, 4, 58
VISION = dict(
    hidden_size=16, intermediate_size=24, num_hidden_layers=3, num_attention_heads=2, image_size=SIDE, patch_size=4
)
TEXT = dict(
    model_type="llama",
    vocab_size=causal.VOCAB,
    hidden_size=24,
    intermediate_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=causal.END,
    pad_token_id=0,
)
MODELS = {  # name: settings of the tower, of the decoder, and of the whole
    "llava": ({}, {}, {}),
    "llava with dropout": (
        dict(attention_dropout=0.1, hidden_act="gelu"),
        dict(model_type="qwen2", attention_dropout=0.2, tie_word_embeddings=True),
        dict(vision_feature_layer=[-2, 1, -1], projector_hidden_act="relu", multimodal_projector_bias=False),
    ),
    "llava with all tokens": (
        dict(initializer_range=0.3, initializer_factor=0.5),
        dict(model_type="mistral", sliding_window=6, initializer_range=0.1),
        dict(vision_feature_layer=-1, vision_feature_select_strategy="full"),
    ),
}
BEAMS = dict(num_beams=4, length_penalty=2.0, no_repeat_ngram_size=3, max_new_tokens=9, early_stopping=True)
WAYS = [
    dict(max_new_tokens=10),
    dict(max_new_tokens=10, do_sample=True, temperature=0.7, top_k=20, top_p=0.9),
    dict(BEAMS),
    dict(max_new_tokens=6, num_beams=3, num_return_sequences=3),
]
out = {"models": []}
tensors.clear()
g = torch.Generator().manual_seed(11)
number = lambda least, most: int(torch.randint(least, most + 1, (), generator=g))
COUNTS = [1, 0, 2, 1] + [number(0, 2) for _ in range(20)]  # the images of each text


def texts(tokens):
    """Texts of words, with images of that many tokens before some word, and which of their tokens are learned"""
    g.manual_seed(12)
    made = []
    for count in COUNTS:
        ids = [1]
        for _ in range(count):
            ids += [number(2, 57) for _ in range(number(0, 2))] + [IMAGE] * tokens
        ids += [number(2, 57) for _ in range(number(1, 3))]
        prompt = len(ids)
        ids += [number(2, 57) for _ in range(number(1, 6))] + [causal.END]
        made.append((ids, prompt))
    return made


def named(model, of=lambda p: p):
    return {n: of(p) for n, p in model.named_parameters() if of(p) is not None}


def name_in_files(name):
    """The name that a weight has in files"""
    for there, here in {
        "model.language_model.": "language_model.model.",
        "lm_head.": "language_model.lm_head.",
        "model.": "",
    }.items():
        if name.startswith(there):
            return here + name.removeprefix(there)
    return name


def shas(model, of=lambda p: p):
    as_bytes = lambda t: t.view(torch.int16) if t.dtype == torch.bfloat16 else t
    return {name_in_files(n): sha(as_bytes(p)) for n, p in named(model, of).items()}


def norms(model):
    return {name_in_files(n): float(f"{p.double().norm():.6g}") for n, p in named(model, lambda p: p.grad).items()}


def collate(samples):
    pad = lambda key, value: torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(s[key]) for s in samples], batch_first=True, padding_value=value
    )
    batch = dict(input_ids=pad("input_ids", 0), labels=pad("labels", -100))
    batch["attention_mask"] = pad("mask", 0)
    pixels = [p for s in samples for p in s["pixels"]]
    return batch | (dict(pixel_values=torch.stack(pixels)) if pixels else {})


pictures = [p["pixel_values"] for p in pictured.pictures(3, SIDE, SIDE)]
raw = pictured.tensors[f"pictures.3x{SIDE}x{SIDE}"]
for label, (vision, text, whole) in MODELS.items():
    config = dict(
        model_type="llava",
        vision_config=dict(VISION | vision, model_type="clip_vision_model"),
        text_config=TEXT | text,
        image_token_index=IMAGE,
        **whole,
    )
    tokens = PATCHES + (whole.get("vision_feature_select_strategy") == "full")

    def make(attention=None):
        torch.manual_seed(42)
        settings = LlavaConfig(**json.loads(json.dumps(config)))
        if attention:
            settings._attn_implementation = attention
        return LlavaForConditionalGeneration(settings)

    samples, at = [], 0
    for (ids, prompt), count in zip(texts(tokens), COUNTS):
        samples.append(
            dict(
                input_ids=ids,
                labels=[-100] * prompt + ids[prompt:],
                mask=[1] * len(ids),
                pixels=pictures[at : at + count],
            )
        )
        at += count
    batch = collate(samples[:4])
    model = make()
    after = generator()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        saved = sorted(load_file(os.path.join(folder, "model.safetensors")))
        written = json.loads((pathlib.Path(folder) / "config.json").read_text())
    entry = dict(
        name=label,
        config=config,
        written=written,
        parameters=[name_in_files(n) for n, _ in model.named_parameters()],
        saved=saved,
        initial=shas(model),
        generator=after,
        samples=[dict(ids=s["input_ids"], labels=s["labels"], images=len(s["pixels"])) for s in samples],
        cases=[],
        texts=[],
    )

    def case(name, attention=None, given=batch, rows=(0, 4), bf16=False, checkpointing=False, frozen=False):
        name = f"{label}, {name}"
        model = make(attention).train()
        if frozen:
            model.model.vision_tower.requires_grad_(False)
        if checkpointing:
            model.gradient_checkpointing_enable()
        torch.manual_seed(7)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            result = model(**given)
        result.loss.backward()
        after = generator()
        grads = dict(grads=shas(model, lambda p: p.grad), norms=norms(model))
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            evaluated = model(**given).logits
        tensors.update(
            {name + ".logits": result.logits.detach(), name + ".loss": result.loss.detach(), name + ".eval": evaluated}
        )
        entry["cases"].append(
            dict(
                name=name,
                attention=attention or "",
                rows=rows,
                bf16=bf16,
                checkpointing=checkpointing,
                frozen=frozen,
                generator=after,
                **grads,
            )
        )

    case("one, none and two images")
    if label == "llava":
        case("no image", given=collate(samples[1:2]), rows=(1, 2))
        case("eager", attention="eager")
        case("bf16", bf16=True)
        case("checkpointing", checkpointing=True)
        case("frozen tower", frozen=True)

    def adapted():
        """A pass of the model with an adapter of peft on its language model"""
        model = peft.get_peft_model(
            make(),
            peft.LoraConfig(
                r=4,
                lora_dropout=0.1,
                init_lora_weights=False,
                target_modules=r".*language_model.*\.(q_proj|v_proj)",
                task_type="CAUSAL_LM",
            ),
        ).train()
        torch.manual_seed(7)
        result = model(**batch)
        result.loss.backward()
        tensors[f"{label}, adapter.logits"] = result.logits.detach()
        trained = {
            name_in_files(n.removeprefix("base_model.model.").replace(".default.", ".")): p.grad
            for n, p in model.named_parameters()
            if p.requires_grad and p.grad is not None
        }
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            saved = {n: sha(p) for n, p in load_file(os.path.join(folder, "adapter_model.safetensors")).items()}
        return dict(
            saved=saved,
            grads={n: sha(g) for n, g in trained.items()},
            norms={n: float(f"{g.double().norm():.6g}") for n, g in trained.items()},
        )

    entry["adapter"] = adapted()
    model = make()
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir="/tmp/unused",
            report_to=[],
            use_cpu=True,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=4,
            learning_rate=1e-3,
            logging_steps=1,
            save_strategy="no",
            disable_tqdm=True,
            max_steps=20,
            remove_unused_columns=False,
        ),
        train_dataset=samples,
        eval_dataset=samples[:4],
        data_collator=collate,
    )
    trainer.train()
    log = [r for r in trainer.state.log_history if "loss" in r]
    entry.update(
        losses=[r["loss"].hex() for r in log],
        grad_norms=[float(r["grad_norm"]).hex() for r in log],
        final=shas(model),
        eval_loss=trainer.evaluate()["eval_loss"].hex(),
    )
    model.eval()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(6 if p.dim() == 2 else 1)  # tokens that are far apart
    chosen = [0, 1, 3]  # texts of one image at most: transformers mixes the images of others up with beams
    prompts = [[i for i, l in zip(s["input_ids"], s["labels"]) if l == -100] for s in samples]

    def asked(rows):
        longest = max(len(prompts[i]) for i in rows)
        left = lambda values, fill: [fill] * (longest - len(values)) + values
        return dict(
            input_ids=torch.tensor([left(prompts[i], 0) for i in rows]),
            attention_mask=torch.tensor([left([1] * len(prompts[i]), 0) for i in rows]),
            pixel_values=torch.stack([p for i in rows for p in samples[i]["pixels"]]),
        )

    for settings in WAYS:
        rows = chosen[:1] + chosen[2:] if settings.get("num_beams") else chosen
        if not settings.get("num_beams"):
            rows = [0, 1, 2, 3]
        given = asked(rows)
        torch.manual_seed(3)
        added = model.generate(**given, **settings)[:, given["input_ids"].shape[1] :].tolist()
        entry["texts"].append(dict(rows=rows, added=added))
    out["models"].append(entry)

# The processor
TEMPLATE = (
    "{% for message in messages %}{% if message['role'] != 'system' %}{{ message['role'].upper() + ': '}}{% endif %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
    "{% if message['role'] != 'assistant' %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}{{ content['text'] + ' '}}"
    "{% endfor %}{% else %}"
    "{% for content in message['content'] | selectattr('type', 'equalto', 'text') %}"
    "{% generation %}{{ content['text'] + ' '}}{% endgeneration %}{% endfor %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"
)
words = "<pad> <s> <unk> USER : ASSISTANT what is this ? a red fox and blue bird in the rain two pictures of it".split()
words += [f"w{i}" for i in range(len(words), IMAGE)] + ["<image>", "w59", "</s>"]
t = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
t.pre_tokenizer = pre_tokenizers.Whitespace()
t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
t.add_special_tokens(
    [AddedToken(w, special=True, normalized=False) for w in ("<pad>", "<s>", "<unk>", "<image>", "</s>")]
)
tok = PreTrainedTokenizerFast(
    tokenizer_object=t,
    bos_token="<s>",
    eos_token="</s>",
    pad_token="<pad>",
    unk_token="<unk>",
    extra_special_tokens={"image_token": "<image>"},
)
processor = LlavaProcessor(
    CLIPImageProcessorPil(size=dict(shortest_edge=SIDE), crop_size=dict(height=SIDE, width=SIDE)),
    tok,
    patch_size=4,
    vision_feature_select_strategy="default",
    num_additional_image_tokens=1,
    chat_template=TEMPLATE,
)
folder = here / "processor"
shutil.rmtree(folder, ignore_errors=True)
processor.save_pretrained(folder)
part = lambda s: {"type": "text", "text": s}
CONVERSATIONS = [
    [("user", [{"type": "image"}, part("what is this ?")]), ("assistant", [part("a red fox")])],
    [
        ("user", [part("what is"), {"type": "image"}, part("and"), {"type": "image"}, part("?")]),
        ("assistant", [part("two pictures of a bird")]),
        ("user", [part("what is in it ?"), {"type": "image"}]),
        ("assistant", [part("the rain")]),
    ],
    [("user", [part("what is a fox ?")]), ("assistant", [part("it is red")])],
]
at, out["conversations"] = 0, []
for turns in CONVERSATIONS:
    messages, images = [], []
    for role, parts in turns:
        filled = []
        for p in parts:
            if p["type"] == "image":
                images.append(at % len(raw))
                p = dict(p, image=Image.fromarray(raw[at % len(raw)].permute(1, 2, 0).numpy()))
                at += 1
            filled.append(p)
        messages.append(dict(role=role, content=filled))
    made = processor.apply_chat_template(messages, tokenize=True, return_dict=True, return_tensors="pt")
    asked_ = processor.apply_chat_template(
        messages[:-1], tokenize=True, return_dict=True, add_generation_prompt=True, return_tensors="pt"
    )
    out["conversations"].append(
        dict(
            messages=[dict(role=r, content=p) for r, p in turns],
            images=images,
            ids=made["input_ids"][0].tolist(),
            prompt=asked_["input_ids"][0].tolist(),
            text=processor.apply_chat_template(messages),
            pixels=[sha(p) for p in made["pixel_values"]] if "pixel_values" in made else [],
        )
    )
tensors.update({n: p for n, p in pictured.tensors.items() if n.startswith("pictures.")})
causal.write(str(here / "llava"), out)
