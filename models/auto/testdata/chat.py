"""Golden values from transformers' apply_chat_template: python chat.py writes chat.json beside it.

A folder with a tokenizer and a chat template, and for each of some conversations its token ids and which of them the
assistant says: by {% generation %}, and as TRL tells a completion from its prompt, by the length of the tokenized
prompt.
"""

import json
import pathlib
import tempfile

import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

here = pathlib.Path(__file__).resolve().parent
templates = here.parents[2] / "text/chat/testdata/templates"
special = ["<s>", "</s>", "<|turn|>", "<|end|>"]
vocab = {
    t: i
    for i, t in enumerate(
        special + sorted(pre_tokenizers.ByteLevel.alphabet()) + ["ss", "is", "Ġa", "Ġb", "ssis", "us", "er", "user"]
    )
}
t = Tokenizer(
    models.BPE(
        vocab, [("s", "s"), ("i", "s"), ("Ġ", "a"), ("Ġ", "b"), ("ss", "is"), ("u", "s"), ("e", "r"), ("us", "er")]
    )
)
t.add_special_tokens([AddedToken(s, special=True) for s in special])
t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
t.post_processor = processors.TemplateProcessing(
    single="<s> $A", special_tokens=[("<s>", 0)]
)  # which templates are not to get


def say(role, content, **fields):
    return {"role": role, "content": content, **fields}


conversations = [
    [say("user", "Grüß dich"), say("assistant", "Größe 🦜 a boss")],
    [
        say("system", " Be brief."),
        say("user", "a b"),
        say("assistant", " assist "),
        say("user", "Und?"),
        say("assistant", ""),
    ],
    [
        say("user", "a"),
        say("assistant", "b", tool_calls=[{"function": {"name": "now", "arguments": {"z": 1, "a": [True]}}}]),
        say("tool", "noon"),
        say("assistant", "At noon"),
    ],
]
out = {"transformers": transformers.__version__, "conversations": conversations, "templates": {}}
with tempfile.TemporaryDirectory() as dir:
    PreTrainedTokenizerFast(tokenizer_object=t, bos_token="<s>", eos_token="</s>").save_pretrained(dir)
    for name in ["marked", "turns"]:
        (pathlib.Path(dir) / "chat_template.jinja").write_text(
            (templates / (name + ".jinja")).read_text(encoding="utf-8"), encoding="utf-8"
        )
        fast = AutoTokenizer.from_pretrained(dir)
        rows = []
        for messages in conversations:
            e = fast.apply_chat_template(messages, return_assistant_tokens_mask=True)
            prompt = fast.apply_chat_template(messages[:-1], add_generation_prompt=True, return_dict=False)
            assert e["input_ids"][: len(prompt)] == prompt
            rows.append({"ids": e["input_ids"], "mask": e["assistant_masks"], "prompt": len(prompt)})
        out["templates"][name] = rows
    out["files"] = {
        p.name: p.read_text(encoding="utf-8") for p in sorted(pathlib.Path(dir).iterdir()) if p.suffix == ".json"
    }
(here / "chat.json").write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
