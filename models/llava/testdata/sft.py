"""Golden values from TRL's SFTTrainer with DataCollatorForVisionLanguageModeling: python sft.py writes sft.json beside
it. The processor and the pictures are those of llava.py, which comes first.
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
from causal import sha
from PIL import Image
from peft import LoraConfig
from safetensors.torch import load_file
from transformers import LlavaConfig, LlavaForConditionalGeneration, LlavaProcessor
from trl import SFTConfig, SFTTrainer

datasets.disable_progress_bars()
processor = LlavaProcessor.from_pretrained(here / "processor", backend="pil")
raw = load_file(here / "llava.safetensors")["pictures.3x8x8"]
config = json.loads((here / "llava.json").read_text())["models"][0]["config"]
COUNTS = [1, 2, 1, 0, 2, 1, 1, 2, 1, 0, 1, 2]
draw = random.Random(5)
WORDS = "what is this ? a red fox and blue bird in the rain two pictures of it".split()
some = lambda least, most: [draw.choice(WORDS) for _ in range(draw.randint(least, most))]
rows, at = [], 0
for count in COUNTS:
    rows.append(
        dict(
            images=[Image.fromarray(raw[at + i].permute(1, 2, 0).numpy()) for i in range(count)],
            prompt=" ".join(["USER :"] + ["<image>"] * count + some(1, 4)),
            completion=" " + " ".join(some(1, 6) + ["</s>"]),
        )
    )
    at += count
features = datasets.Features(
    images=datasets.List(datasets.Image()), prompt=datasets.Value("string"), completion=datasets.Value("string")
)
data = datasets.Dataset.from_list(rows, features=features)


def name_in_files(name):
    """The name that a weight has in files"""
    if name.startswith("lm_head."):
        return "language_model." + name
    return name.replace("model.language_model.", "model.language_model.model.", 1).removeprefix("model.")


def make():
    torch.manual_seed(42)
    model = LlavaForConditionalGeneration(LlavaConfig(**json.loads(json.dumps(config))))
    with torch.no_grad():  # so that probabilities are far from even
        for p in model.parameters():
            if p.dim() == 2:
                p.mul_(4)
    return model


def trainer(model, lora=None, **settings):
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
            **(
                dict(max_length=None, learning_rate=1e-3, logging_steps=1, gradient_checkpointing=False, bf16=False)
                | settings
            ),
        ),
        train_dataset=data,
        eval_dataset=data.select(range(8)),
        processing_class=processor,
        peft_config=lora and LoraConfig(task_type="CAUSAL_LM", **lora),
    )


collate = trainer(make()).data_collator
out = {"samples": [], "runs": []}
for i, row in enumerate(rows):
    b = collate([data[i]])
    out["samples"].append(dict(ids=b["input_ids"][0].tolist(), labels=b["labels"][0].tolist(), images=COUNTS[i]))


def run(name, lora=None, **settings):
    """A run of SFTTrainer, and an evaluation of the first eight samples"""
    model = make()
    torch.manual_seed(42)
    t = trainer(model, lora, **settings)
    trained = lambda: {
        name_in_files(n.replace("base_model.model.", "").replace(".default", "").replace(".base_layer", "")): sha(p)
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


run("nll", max_steps=12)
run("accumulated, dft", max_steps=6, gradient_accumulation_steps=2, loss_type="dft")
run(
    "updates",
    lora=dict(r=4, lora_alpha=8, lora_dropout=0.1, target_modules=r".*language_model.*\.(q_proj|v_proj)"),
    max_steps=8,
)
with open(here / "sft.json", "w") as f:
    json.dump(out, f, indent=0)
    f.write("\n")
