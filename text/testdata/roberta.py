"""What RobertaTokenizer and GPT2Tokenizer of transformers make of vocab.json, merges.txt and settings beside them:
python roberta.py writes roberta.json beside it. Needs transformers 5.17.0.

The tokenizers are those of folders on the Hub that have no tokenizer.json, such as trocr-base's.
"""

import json
import pathlib
import tempfile

from transformers import AutoTokenizer

here = pathlib.Path(__file__).resolve().parent
PAIRS = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "A"), ("A", "B"), ("Ġ", "hello"), ("1", "2")]
WORDS = ["<s>", "<pad>", "</s>", "<unk>", *"ABCDhelo123 <mask>NEWxyz".replace(" ", ""), "Ġ", *map("".join, PAIRS)]
VOCAB = {w: i for i, w in enumerate(dict.fromkeys([*WORDS, "<mask>"]))}


def token(content, **settings):
    """A token as older files have it"""
    usual = dict(single_word=False, lstrip=False, rstrip=False, normalized=True, __type="AddedToken")
    return dict(usual, content=content, **settings)


CLASS = dict(tokenizer_class="RobertaTokenizer")
FOLDERS = {  # name: the files beside vocab.json and merges.txt
    "a folder of the Hub": dict(
        tokenizer_config=dict(
            CLASS,
            add_prefix_space=False,
            errors="replace",
            bos_token=token("<s>"),
            cls_token=token("<s>"),
            eos_token=token("</s>"),
            sep_token=token("</s>"),
            unk_token=token("<unk>"),
            pad_token=token("<pad>"),
            mask_token=token("<mask>") | dict(lstrip=True),
        ),
        special_tokens_map=dict(bos_token="<s>", mask_token=token("<mask>") | dict(lstrip=True)),
    ),
    "the class alone": dict(tokenizer_config=CLASS),
    "a space before the text": dict(
        tokenizer_config=dict(tokenizer_class="BartTokenizerFast", add_prefix_space=True, trim_offsets=False)
    ),
    "other special tokens": dict(
        tokenizer_config=dict(CLASS, cls_token="<pad>", sep_token="<s>", additional_special_tokens=["QQ"])
    ),
    "added_tokens.json": dict(tokenizer_config=CLASS, added_tokens={"xyz": 300, "abc": 301}),
    "added_tokens_decoder": dict(
        tokenizer_config=dict(
            CLASS,
            added_tokens_decoder={
                "0": token("<s>", special=True),
                "100": token("NEW", special=False),
                str(VOCAB["<mask>"]): token("<mask>", special=True) | dict(lstrip=True, normalized=False),
            },
        )
    ),
    "GPT-2": dict(tokenizer_config=dict(tokenizer_class="GPT2Tokenizer")),
    "GPT-2 of an older folder": dict(
        tokenizer_config=dict(tokenizer_class="GPT2TokenizerFast", add_prefix_space=True, eos_token="</s>"),
        special_tokens_map=dict(pad_token="<pad>", bos_token=token("<s>"), additional_special_tokens=["QQ"]),
        added_tokens={"xyz": 300},
    ),
}
TEXTS = ["hello AB <mask> NEW", " hello", "AB12 QQxyz abc", "", "<s>hello</s>", "3 <pad>"]
cases = []
for name, files in FOLDERS.items():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        texts = {f + ".json": json.dumps(content) for f, content in files.items()}
        texts["vocab.json"] = json.dumps(VOCAB, ensure_ascii=False)
        texts["merges.txt"] = "#version: 0.2\n" + "\n".join(map(" ".join, PAIRS)) + "\n"
        for f, content in texts.items():
            (folder / f).write_text(content)
        t = AutoTokenizer.from_pretrained(folder)
        made = [t(text, return_offsets_mapping=True) for text in TEXTS]
        cases.append(
            dict(
                name=name,
                files=texts,
                tokenizer=json.loads(t.backend_tokenizer.to_str()),
                ids=[m["input_ids"] for m in made],
                offsets=[m["offset_mapping"] for m in made],
                pair=t("hello", "AB").input_ids,
                decoded=[t.decode(m["input_ids"], skip_special_tokens=True) for m in made],
            )
        )
(here / "roberta.json").write_text(json.dumps(dict(texts=TEXTS, cases=cases), ensure_ascii=False, indent=0) + "\n")
