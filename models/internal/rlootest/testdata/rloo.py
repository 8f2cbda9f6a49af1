"""Golden values from TRL's RLOOTrainer: python rloo.py writes rloo.json beside it.

Runs of RLOOTrainer that generate, on one process and on two (gloo). The tokenizer is that of package dpo. Needs trl 1.16.0,
transformers 5.17.0, peft 0.21.2, torch 2.11.0.
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
sys.path.insert(0, str(here.parents[1] / "modeltest"))
os.environ.update(
    CI="1",
    HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_PROGRESS_BARS="1",
    HF_DATASETS_CACHE=tempfile.mkdtemp(),
    TRL_EXPERIMENTAL_SILENCE="1",
)
import causal  # first, since it chooses the code paths of libtorch
import datasets
import torch
import transformers
from causal import generator, parameters, sha
from peft import LoraConfig
from transformers import AutoTokenizer
from trl import RLOOConfig, RLOOTrainer

datasets.disable_progress_bars()
causal.tensors.clear()
tok = AutoTokenizer.from_pretrained(here.parents[2] / "dpo/testdata/tokenizer")
ENDS = list(range(1, 60, 2))  # so that some completions end
MODELS = {
    "llama": (
        "LlamaForCausalLM",
        dict(
            vocab_size=len(tok),
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=48,
            max_position_embeddings=64,
            eos_token_id=ENDS,
            bos_token_id=0,
        ),
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        dict(vocab_size=len(tok), n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=ENDS),
    ),
}
folder = tempfile.mkdtemp()


def make(name):
    path = f"{folder}/{name}"
    cls = getattr(transformers, MODELS[name][0])
    if not os.path.exists(path):
        torch.manual_seed(42)
        model = cls(cls.config_class(**MODELS[name][1]))
        with torch.no_grad():  # so that probabilities are far from even
            for p in model.parameters():
                if p.dim() == 2:
                    p.mul_(4)
        model.save_pretrained(path)
    return cls.from_pretrained(path, dtype=torch.float32)


words = "the red fox ran home in rain and sleet; nobody heard her bark again".split()
draw = random.Random(3)
out = {
    "prompts": [
        {"prompt": " ".join(draw.choice(words) for _ in range(draw.randint(1, 3))), "bonus": i % 5} for i in range(21)
    ],
    "even": [
        {"prompt": a + b, "bonus": i} for i, (a, b) in enumerate(zip("abcdefghijk", "lmnopqrstuv"))
    ],  # all of one length
    "models": {n: make(n).config.to_diff_dict() for n in MODELS},
    "initial": {n: parameters(make(n)) for n in MODELS},
    "runs": [],
}


def evens(completion_ids, **_):
    return [sum(i % 2 == 0 for i in ids) / len(ids) for ids in completion_ids]


def bonus(completions, completion_ids, bonus, **_):
    return [
        None if len(ids) % 3 == 0 else b + len(text.encode()) / 10
        for ids, text, b in zip(completion_ids, completions, bonus)
    ]


FUNCTIONS = {"evens": evens, "bonus": bonus}
numbers = lambda m: {
    k: float(v).hex()
    for k, v in m.items()
    if v is not None
    and k not in ("num_tokens", "step_time")
    and "runtime" not in k
    and "per_second" not in k
    and k not in ("epoch", "step", "total_flos", "train_loss")
}


def trainer(model, rows, rewards, peft=None, eval=None, **settings):
    """A trainer, the completions of each generation, and the advantages of those of the training"""
    args = dict(
        per_device_train_batch_size=8,
        per_device_eval_batch_size=2 * settings.get("num_generations_eval", settings.get("num_generations", 2)),
        max_completion_length=6,
        learning_rate=1e-3,
        logging_steps=1,
        gradient_checkpointing=False,
        bf16=False,
    )
    args = RLOOConfig(
        output_dir=folder + "/out", report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, **args | settings
    )
    t = RLOOTrainer(
        model=model,
        reward_funcs=[FUNCTIONS[r] for r in rewards],
        args=args,
        train_dataset=datasets.Dataset.from_list(rows),
        eval_dataset=eval and datasets.Dataset.from_list(eval),
        processing_class=tok,
        peft_config=peft,
    )
    generated, advantages = [], []
    generate, score = t._generate_single_turn, t._generate_and_score_completions

    def single(*a, **k):
        made = generate(*a, **k)
        generated.append(made[0] if isinstance(made, tuple) else made)
        return made

    def scored(*a, **k):
        made = score(*a, **k)
        advantages.append([float(v).hex() for v in made["advantages"]])
        return made

    t._generate_single_turn, t._generate_and_score_completions = single, scored
    return t, generated, advantages


def ranked(name, rewards=("evens",), **settings):
    """A run on several processes, of which this is one"""
    t, generated, advantages = trainer(make("llama"), out["prompts"], rewards, ddp_backend="gloo", **settings)
    t.train()
    return dict(
        name=name,
        rewards=rewards,
        settings=settings,
        final=parameters(t.model),
        generator=generator(),
        generated=generated,
        advantages=advantages,
        logs=[numbers(r) for r in t.state.log_history if "loss" in r],
    )


if "RANK" in os.environ:
    torch.set_num_threads(1)
    runs = [
        ranked(
            "two updates a generation",
            max_steps=4,
            num_generations=4,
            gradient_accumulation_steps=2,
            steps_per_generation=4,
        ),
        ranked(
            "two rewards, reused",
            ("evens", "bonus"),
            max_steps=6,
            num_generations=4,
            beta=0.1,
            num_iterations=2,
            steps_per_generation=2,
            gradient_accumulation_steps=2,
            reward_weights=[1.0, 0.2],
            reward_clip_range=(0.3, 0.9),
            normalize_advantages=True,
            mask_truncated_completions=True,
        ),
    ]
    with open(os.environ["OUT"] + os.environ["RANK"], "w") as f:
        json.dump(runs, f)
    torch.distributed.destroy_process_group()
    sys.exit()


def run(name, family="llama", lora=None, rows="prompts", rewards=("evens",), **settings):
    """A run of RLOOTrainer, and an evaluation of the first six prompts"""
    t, generated, advantages = trainer(
        make(family), out[rows], rewards, peft=lora and LoraConfig(**lora), eval=out[rows][:6], **settings
    )
    if lora:
        first = sorted(n for n, p in t.model.named_parameters() if p.requires_grad)
        torch.manual_seed(42)
        with torch.no_grad():
            for n in first:  # the same in both languages, wherever the generator stood
                dict(t.model.named_parameters())[n].normal_(0, 0.1)
        torch.manual_seed(42)
    t.train()
    final = {
        n.replace("base_model.model.", "").replace(".default", "").replace(".base_layer", ""): sha(p)
        for n, p in t.model.named_parameters()
        if p.requires_grad
    }
    after, count = generator(), len(generated)
    predict, losses = t.prediction_step, []  # eval_loss has only as many batches as there are without num_generations

    def step(*a, **k):
        losses.append(float(predict(*a, **k)[0]))
        return torch.tensor(losses[-1]), None, None

    t.prediction_step = step
    t.evaluate()
    out["runs"].append(
        dict(
            name=name,
            family=family,
            rows=rows,
            rewards=rewards,
            settings=settings,
            lora=lora,
            final=final,
            generator=after,
            generated=generated[:count],
            advantages=advantages[:count],
            evaluated=generated[count:],
            eval_loss=sum(losses) / len(losses),
            logs=[numbers(r) for r in t.state.log_history if "loss" in r or "eval_loss" in r],
        )
    )


run("defaults", max_steps=10, gradient_accumulation_steps=2)
run(
    "no kl, reused",
    max_steps=10,
    beta=0.0,
    num_generations=4,
    num_iterations=2,
    steps_per_generation=2,
    gradient_accumulation_steps=2,
    epsilon=0.02,
    epsilon_high=0.03,
)
run(
    "two rewards, normalized, clipped",
    rewards=("evens", "bonus"),
    max_steps=10,
    beta=0.1,
    num_generations=4,
    steps_per_generation=4,
    reward_weights=[1.0, 0.2],
    reward_clip_range=(0.3, 0.9),
    normalize_advantages=True,
    mask_truncated_completions=True,
    logging_steps=2,
    weight_decay=0.1,
    temperature=0.8,
)
run("some without a reward", rewards=("bonus",), max_steps=10, num_generations=4, beta=0.2, epsilon=0.02)
run(
    "pairs, some without a reward, normalized",
    rewards=("bonus",),
    max_steps=5,
    beta=0.0,
    normalize_advantages=True,
    num_generations_eval=1,
)
run(
    "gpt2",
    family="gpt2",
    rows="even",
    max_steps=5,
    num_generations=4,
    disable_dropout=True,
    top_k=40,
    num_iterations=3,
)
run("adapter", max_steps=6, beta=0.3, num_iterations=2, lora=dict(r=4, lora_alpha=8, task_type="CAUSAL_LM"))
run("bf16", max_steps=4, bf16=True, num_generations=4)
run_of = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", __file__]
subprocess.run(run_of, env=os.environ | {"OUT": folder + "/ranks."}, check=True)
out["ranks"] = list(zip(*(json.load(open(f"{folder}/ranks.{rank}")) for rank in range(2))))  # by run, then by rank
with open(here / "rloo.json", "w") as f:
    json.dump(out, f, indent=0)
    f.write("\n")
