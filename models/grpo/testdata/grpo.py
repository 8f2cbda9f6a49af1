"""Golden values from TRL's GRPOTrainer: python grpo.py writes grpo.json and grpo.safetensors beside it.

Advantages and what is logged of completions, a forward and backward pass with each loss, and runs of GRPOTrainer that
generate, on one process and on two (gloo). The tokenizer is that of package dpo. Needs trl 1.16.0, transformers 5.17.0, peft 0.21.2, torch 2.11.0.
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
from causal import generator, parameters, sha, tensors
from peft import LoraConfig
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

datasets.disable_progress_bars()
causal.tensors.clear()
tok = AutoTokenizer.from_pretrained(here.parents[1] / "dpo/testdata/tokenizer")
ENDS = list(range(1, 60, 2))  # so that some completions end
SIZES = dict(
    vocab_size=len(tok),
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=48,
    max_position_embeddings=64,
    eos_token_id=ENDS,
    bos_token_id=0,
)
MODELS = {
    "llama": ("LlamaForCausalLM", SIZES),
    "gemma2": (
        "Gemma2ForCausalLM",
        SIZES | dict(head_dim=8, final_logit_softcapping=2.0, pad_token_id=0, attn_logit_softcapping=None),
    ),
    "gpt2": (
        "GPT2LMHeadModel",
        dict(vocab_size=len(tok), n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=ENDS),
    ),
}
folder = tempfile.mkdtemp()


def make(name, seed=42):
    path = f"{folder}/{name}{seed}"
    cls = getattr(transformers, MODELS[name][0])
    if not os.path.exists(path):
        torch.manual_seed(seed)
        model = cls(cls.config_class(**MODELS[name][1]))
        with torch.no_grad():  # so that probabilities are far from even
            for p in model.parameters():
                if p.dim() == 2:
                    p.mul_(4)
        model.save_pretrained(path)
    return cls.from_pretrained(path, dtype=torch.float32)


words = "the red fox ran home in rain and sleet; nobody heard her bark again".split()
draw = random.Random(3)
prompts = [
    {"prompt": " ".join(draw.choice(words) for _ in range(draw.randint(1, 3))), "bonus": i % 5} for i in range(21)
]
even = [
    {"prompt": a + b, "bonus": i} for i, (a, b) in enumerate(zip("abcdefghijk", "lmnopqrstuv"))
]  # all of one length
user, assistant = lambda s: {"role": "user", "content": s}, lambda s: {"role": "assistant", "content": s}
chats = [[user("a"), assistant("b"), user("the fox")], [user("Größe 🦜")]]
out = {
    "prompts": prompts,
    "even": even,
    "models": {n: make(n).config.to_diff_dict() for n in MODELS},
    "initial": {n: parameters(make(n)) for n in MODELS},
    "cases": [],
    "judged": [],
    "runs": [],
}


def evens(completion_ids, **_):
    return [sum(i % 2 == 0 for i in ids) / len(ids) for ids in completion_ids]


def bonus(completions, completion_ids, bonus, **_):
    return [
        None if len(ids) % 3 == 0 else b + len(text.encode()) / 10
        for ids, text, b in zip(completion_ids, completions, bonus)
    ]


def trainer(model, rows=prompts, funcs=(evens,), peft=None, eval=None, **settings):
    settings = (
        dict(
            num_generations=4,
            per_device_train_batch_size=8,
            per_device_eval_batch_size=8,
            max_completion_length=6,
            learning_rate=1e-3,
            logging_steps=1,
            gradient_checkpointing=False,
            bf16=False,
        )
        | settings
    )
    args = GRPOConfig(
        output_dir=folder + "/out", report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, **settings
    )
    return GRPOTrainer(
        model=model,
        reward_funcs=list(funcs),
        args=args,
        train_dataset=datasets.Dataset.from_list(rows),
        eval_dataset=eval and datasets.Dataset.from_list(eval),
        processing_class=tok,
        peft_config=peft,
    )


numbers = lambda m: {
    k: float(v).hex()
    for k, v in m.items()
    if v is not None
    and k not in ("num_tokens", "step_time")
    and "runtime" not in k
    and "per_second" not in k
    and k not in ("epoch", "step", "total_flos", "train_loss")
}
logged = lambda t: numbers({k: sum(v) / len(v) for k, v in t._metrics["train"].items()})


def ranked(name, two=False, **settings):
    """A run on several processes, of which this is one, beside a record of what it generated"""
    made = []
    t = trainer(make("llama"), funcs=(evens, bonus) if two else (evens,), ddp_backend="gloo", **settings)
    generate = t._generate_single_turn

    def single(*a, **k):
        ids, logps = generate(*a, **k)
        made.append(ids)
        return ids, logps

    t._generate_single_turn = single
    t.train()
    logs = [numbers(r) for r in t.state.log_history if "loss" in r]
    return dict(
        name=name,
        two=two,
        settings=settings,
        final=parameters(t.model),
        generator=generator(),
        generated=made,
        logs=logs,
    )


if "RANK" in os.environ:
    torch.set_num_threads(1)
    runs = [
        ranked("two updates a generation", max_steps=4, gradient_accumulation_steps=2, steps_per_generation=4),
        ranked(
            "two rewards",
            two=True,
            max_steps=4,
            beta=0.05,
            reward_weights=[1.0, 0.2],
            scale_rewards="batch",
            mask_truncated_completions=True,
            top_entropy_quantile=0.5,
        ),
        ranked(
            "reused",
            two=True,
            max_steps=6,
            loss_type="grpo",
            num_iterations=2,
            steps_per_generation=2,
            gradient_accumulation_steps=2,
            multi_objective_aggregation="normalize_then_sum",
        ),
    ]
    with open(os.environ["OUT"] + os.environ["RANK"], "w") as f:
        json.dump(runs, f)
    torch.distributed.destroy_process_group()
    sys.exit()

g = torch.Generator().manual_seed(5)
t = trainer(make("llama"))
out["chats"] = [[m, t._tokenize_prompts([m])[0][0]] for m in chats]
out["tokens"] = t._tokenize_prompts([p["prompt"] for p in prompts])[0]

# Eight completions of two prompts: some end, and all were generated by a model that was a little different.
completions = [torch.randint(60, 260, (n,), generator=g).tolist() for n in (3, 6, 1, 4, 6, 5, 2, 6)]
for i in (0, 3, 6):
    completions[i][-1] = 1
rows = [out["tokens"][i // 4] for i in range(8)]
out["completions"] = completions
noise = [torch.randn(8, 6, generator=g) for _ in range(2)]
tensors["advantages"] = torch.randn(8, generator=g)
tensors["noise.old"], tensors["noise.ref"] = noise[0] * 0.3, noise[1] * 0.3


def judged(name, rewards, weights=None, **settings):
    """The advantages of given rewards, and what is logged"""
    funcs = []
    for i in range(len(rewards[0])):

        def f(prompts, i=i, **_):
            return [r[i] for r in rewards]

        f.__name__ = f"f{i}"
        funcs.append(f)
    t = trainer(make("llama"), funcs=funcs, reward_weights=weights, **settings)
    t._generate_single_turn = lambda *_: (completions, None)
    t.model.train()
    made = t._generate_and_score_completions([prompts[i // 4] for i in range(8)])
    tensors["judged." + name] = made["advantages"]
    out["judged"].append(
        dict(
            name=name,
            rewards=rewards,
            weights=weights,
            settings=settings,
            metrics=logged(t),
            items=int(made["num_items_in_batch"]),
        )
    )


one = [[float(x)] for x in torch.randn(8, generator=g)]
two = [[float(a), float(b)] for a, b in torch.randn(8, 2, generator=g)]
holes = [[None if i in (1, 5) else r[0], None if i in (1, 2, 3) else r[1]] for i, r in enumerate(two)]
for scale in ("group", "batch", "none"):
    judged("one " + scale, one, scale_rewards=scale)
    judged("holes " + scale, holes, scale_rewards=scale, weights=[0.5, 2.0])
judged("two", two, weights=[1.0, 0.3], multi_objective_aggregation="normalize_then_sum")
judged("holes then sum", holes, multi_objective_aggregation="normalize_then_sum")
judged("equal", [[1.0]] * 4 + one[4:], mask_truncated_completions=True)
judged("nothing applies", [[None]] * 8)


def padded(lists, side, value=None):
    width = max(map(len, lists))
    value = tok.pad_token_id if value is None else value
    return torch.tensor(
        [[value] * (width - len(x)) + x if side == "left" else x + [value] * (width - len(x)) for x in lists]
    )


def case(name, family="llama", old=True, bf16=False, **settings):
    """A forward and backward pass of a micro-batch of two in a window"""
    model = make(family)
    t = trainer(model, **settings)
    made = {
        "prompt_ids": padded(rows, "left"),
        "prompt_mask": padded([[1] * len(r) for r in rows], "left", 0),
        "completion_ids": padded(completions, "right"),
        "completion_mask": padded([[1] * len(c) for c in completions], "right", 0),
        "advantages": tensors["advantages"],
        "num_items_in_batch": torch.tensor(70),
    }
    if settings.get("mask_truncated_completions"):
        made["completion_mask"] *= torch.tensor([c[-1] in ENDS + [tok.pad_token_id] for c in completions]).unsqueeze(1)
    model.train()
    ids, mask = (
        torch.cat([made["prompt_ids"], made["completion_ids"]], 1),
        torch.cat([made["prompt_mask"], made["completion_mask"]], 1),
    )
    with torch.no_grad():
        logps = (
            t._get_per_token_logps_and_entropies(model, ids, mask, made["completion_ids"].size(1))[0]
            * made["completion_mask"]
        )
    if old:
        made["old_per_token_logps"] = logps + tensors["noise.old"] * made["completion_mask"]
    if settings.get("beta"):
        made["ref_per_token_logps"] = logps + tensors["noise.ref"] * made["completion_mask"]
    t.current_gradient_accumulation_steps = 2
    t.args.steps_per_generation = 3
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        loss = t._compute_loss(model, made)
    loss.backward()
    tensors[name + ".loss"] = loss.detach()
    out["cases"].append(
        dict(
            name=name,
            family=family,
            old=old,
            bf16=bf16,
            settings=settings,
            metrics=logged(t),
            grads=parameters(model, lambda p: p.grad),
            norms={n: float(f"{p.grad.double().norm():.6g}") for n, p in model.named_parameters()},
        )
    )


for loss in ["dapo", "grpo", "bnpo", "dr_grpo", "luspo", "cispo", "sapo", "vespo"]:
    case(loss, loss_type=loss, epsilon_high=0.3)
case("sequence", loss_type="grpo", importance_sampling_level="sequence")
case("luspo, sequence", loss_type="luspo", importance_sampling_level="sequence", epsilon=3e-4, epsilon_high=4e-4)
case("kl", loss_type="grpo", beta=0.2)
case("kl without correction", beta=0.2, use_bias_correction_kl=False, importance_sampling_level="sequence")
case("on policy", old=False, beta=0.1)
case("delta", delta=1.4)
case("off-policy mask", off_policy_mask_threshold=0.05)
case("high entropy", top_entropy_quantile=0.3, loss_type="bnpo")
case("masked", mask_truncated_completions=True)
case("warm", temperature=0.7)
case("warm, soft cap", family="gemma2", temperature=1.3, old=False)
case("cispo 5", loss_type="cispo", epsilon_high=1.2)
case("bf16", bf16=True)
case(
    "vespo, negative",
    loss_type="vespo",
    vespo_k_pos=1.5,
    vespo_lambda_pos=1.0,
    vespo_k_neg=2.5,
    vespo_lambda_neg=0.5,
    sapo_temperature_neg=2.0,
)
case("sapo, warm", loss_type="sapo", sapo_temperature_pos=1.5, sapo_temperature_neg=2.0)


def run(name, family="llama", lora=None, rows="prompts", two=False, **settings):
    """A run of GRPOTrainer, and an evaluation of the first six prompts"""
    made = []
    t = trainer(
        make(family),
        rows=out[rows],
        funcs=(evens, bonus) if two else (evens,),
        peft=lora and LoraConfig(**lora),
        eval=out[rows][:6],
        **settings,
    )
    if lora:
        first = sorted(n for n, p in t.model.named_parameters() if p.requires_grad)
        torch.manual_seed(42)
        with torch.no_grad():
            for n in first:  # the same in both languages, wherever the generator stood
                dict(t.model.named_parameters())[n].normal_(0, 0.1)
        torch.manual_seed(42)
    generate = t._generate_single_turn

    def single(*a, **k):
        ids, logps = generate(*a, **k)
        made.append(ids)
        return ids, logps

    t._generate_single_turn = single
    t.train()
    trained = lambda: {
        n.replace("base_model.model.", "").replace(".default", "").replace(".base_layer", ""): sha(p)
        for n, p in t.model.named_parameters()
        if p.requires_grad
    }
    final, after, count = trained(), generator(), len(made)
    predict, losses = (
        t.prediction_step,
        [],
    )  # eval_loss has the first batches alone: as many as there would be without num_generations

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
            two=two,
            settings=settings,
            lora=lora,
            final=final,
            generator=after,
            generated=made[:count],
            evaluated=made[count:],
            eval_loss=sum(losses) / len(losses),
            logs=[numbers(r) for r in t.state.log_history if "loss" in r or "eval_loss" in r],
        )
    )


run("llama", max_steps=6, gradient_accumulation_steps=2)
run(
    "llama, reused",
    max_steps=9,
    loss_type="grpo",
    beta=0.1,
    num_iterations=2,
    steps_per_generation=2,
    gradient_accumulation_steps=2,
    epsilon_high=0.28,
)
run(
    "llama, each its own update",
    max_steps=8,
    loss_type="bnpo",
    steps_per_generation=4,
    temperature=0.8,
    top_k=40,
    top_p=0.9,
)
run(
    "gpt2",
    family="gpt2",
    rows="even",
    max_steps=5,
    loss_type="dr_grpo",
    disable_dropout=True,
    repetition_penalty=1.2,
    min_p=0.01,
)
run(
    "llama, two rewards",
    two=True,
    max_steps=5,
    reward_weights=[1.0, 0.2],
    scale_rewards="batch",
    mask_truncated_completions=True,
    top_entropy_quantile=0.5,
    logging_steps=2,
    weight_decay=0.1,
)
run("llama, adapter", max_steps=5, beta=0.05, lora=dict(r=4, lora_alpha=8, task_type="CAUSAL_LM"), num_iterations=2)
run("llama, bf16", max_steps=4, bf16=True, beta=0.05)
run("llama, checkpointing", max_steps=4, gradient_checkpointing=True, loss_type="vespo")
run_of = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", __file__]
subprocess.run(run_of, env=os.environ | {"OUT": folder + "/ranks."}, check=True)
out["ranks"] = list(zip(*(json.load(open(f"{folder}/ranks.{rank}")) for rank in range(2))))  # by run, then by rank
causal.write(str(here / "grpo"), out)
