"""Writes chat.json: what transformers makes of templates and conversations, and jinja2 of expressions.

Run with a Python that has transformers 5.17 and jinja2 3.1.6.
"""

import datetime
import json
import pathlib
import shutil
import tempfile

import jinja2
import transformers
import transformers.utils.chat_template_utils as chat_template_utils
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer

here = pathlib.Path(__file__).parent


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 7, 9, 4, 5, 6)


chat_template_utils.datetime = Clock


def say(role, content, **fields):
    return {"role": role, "content": content, **fields}


def call(name, arguments, id):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


tools = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": 'The "weather" of a <place> &\nmore: é',
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"type": "string", "enum": ["Rome", "Åre"]},
                    "days": {"type": "integer", "default": 3},
                    "by": {"type": ["number", "null"]},
                    "Of": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {"z": {"type": "boolean"}, "a": {}},
                            "required": ["z"],
                        },
                    },
                },
                "required": ["place", "days"],
            },
            "return": {"type": "string"},
        },
    },
    {
        "type": "function",
        "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}},
    },
]
plain = [
    say("system", " Be brief. "),
    say("user", "Hi <b> & 'you' \"q\" ß 日本 🦜"),
    say("assistant", "Hello!\n\nThere "),
    say("user", "  How? \n"),
]
bare = [
    say("user", "One"),
    say("assistant", "<think>\nhm\n</think>\n\nTwo "),
    say("user", "Three"),
    say("assistant", "Four"),
]
one_call = [
    say("user", "Weather?"),
    say(
        "assistant",
        "",
        tool_calls=[
            call(
                "get_weather",
                {
                    "place": "Åre",
                    "days": 2,
                    "by": None,
                    "Of": [{"z": True, "a": 1.5}, 1e20, 1e-7, -0.0, '\t"\\\u0001\u007f'],
                },
                "123456789",
            )
        ],
    ),
    say("tool", '{"sun": true}', name="get_weather", tool_call_id="123456789"),
    say("assistant", "Sunny."),
    say("user", "Thanks"),
]
two_calls = [
    say("user", "Weather?"),
    say(
        "assistant",
        None,
        reasoning_content="I call.\n",
        tool_calls=[call("get_weather", {"place": "Rome"}, "123456789"), call("now", "{}", "abcdefghi")],
    ),
    say("tool", "22", tool_call_id="123456789"),
    say("tool", {"time": ["noon"]}, tool_call_id="abcdefghi"),
    say("assistant", "Done", reasoning_content="Both are there."),
]
parts = [
    say("user", [{"type": "text", "text": " Part one"}, {"type": "image"}, {"type": "text", "text": "two "}]),
    say("assistant", [{"type": "text", "text": "Fine"}]),
]
conversations = {
    "prompt": {"messages": plain, "add_generation_prompt": True},
    "whole": {"messages": plain},
    "bare": {"messages": bare},
    "open": {"messages": bare, "continue_final_message": True},
    "open parts": {"messages": parts, "continue_final_message": True},
    "open thought": {"messages": two_calls, "continue_final_message": "reasoning_content"},
    "open tools": {"messages": one_call[:2], "continue_final_message": "name"},
    "tools": {"messages": one_call, "tools": tools, "add_generation_prompt": True},
    "two tools": {"messages": two_calls, "tools": tools},
    "no tools": {"messages": two_calls[:3], "tools": []},
    "parts": {"messages": parts, "add_generation_prompt": True},
    "documents": {
        "messages": plain,
        "documents": [{"title": "T1 ß", "text": "one\n\ntwo"}, {"title": "T2", "text": "x"}],
    },
    "variables": {
        "messages": bare,
        "enable_thinking": False,
        "date": "then",
        "add_generation_prompt": True,
        "bos_token": "<other>",
    },
    "roles": {"messages": [say("user", "a"), say("user", "b"), say("stop", "c"), say("user", "d")]},
    "nobody": {"messages": [{"content": "a"}]},
}
special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}

variables = {
    "n": 7,
    "f": 2.5,
    "s": "Hello World",
    "u": "Straße ΟΔΟΣ ǆ İ ﬁ",
    "empty": "",
    "none": None,
    "t": True,
    "list": [3, 1, 2],
    "words": ["b", "A", "c", "a"],
    "nested": [[1, [2]], {"a": [None, True]}],
    "d": {"b": 1, "a": 2, "C": None, "items": "own", "1": "x"},
    "lines": "one\ntwo\r\nthree\n\nfive",
    "people": [{"name": "Bo", "age": 3, "tags": {"x": 1}}, {"name": "al", "age": 5}, {"name": "Cy", "age": 3}],
    "quotes": 'it\'s "so"',
    "spaces": " \t a  b\u00a0c \n",
    "big": 9007199254740993,
    "tiny": 1e-5,
    "huge": 1e16,
    "html": "<a href='x'>&\"</a>",
}
expressions = (here / "expressions.txt").read_text(encoding="utf-8").splitlines()
blocks = [
    "{% set x = 1 %}{% for i in list %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}",
    "{% set ns = namespace(x=1) %}{% for i in list %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }} {{ ns }}",
    "{% set d.x = 1 %}",
    "{% set a, b = list[:2] %}{{ a }}{{ b }}",
    "{% set a, b = list %}",
    "{% set a, (b, c) = 1, (2, 3) %}{{ a }}{{ c }}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k in d %}{{ k }}{% endfor %}",
    "{% for c in u[:4] %}{{ c }}.{% endfor %}",
    "{% for x in none %}{% endfor %}",
    "{% for x in missing %}a{% else %}b{% endfor %}",
    "{% for x in 5 %}{% endfor %}",
    "{% for i in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.previtem }}{{ loop.nextitem }};{% endfor %}{{ loop }}",
    "{% for i in list %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i > 1) }}{{ loop.nope is defined }}{{ loop }}{% endfor %}",
    "{% for i in list if i > 1 %}{{ loop.index }}/{{ loop.length }}:{{ i }} {% else %}none{% endfor %}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% for i in list %}{% for j in words %}{{ loop.index }}{% if j == 'A' %}{% break %}{% endif %}{% endfor %}{{ loop.index }};{% endfor %}",
    "{% for i in list|map('string') %}{{ loop.last }}{{ loop.length }}{% endfor %}",
    "{% for i in list recursive %}{{ loop(i) }}{% endfor %}",
    "{% set g = list|map('string') %}{{ g|join }}-{{ g|join }}",
    "{% break %}",
    "{% if true %}{% continue %}{% endif %}",
    "{% if n > 9 %}a{% elif n > 5 %}b{% elif missing.x %}c{% else %}d{% endif %}",
    "{% if missing %}a{% endif %}x",
    "{% macro f(a, b=2, c=a) %}{{ a }},{{ b }},{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, c=3) }} {{ f() }} {{ f(1, 2, 3) }} {{ f.name }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, a=2) }}",
    "{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, x=3) }}",
    "{% macro f(x) %}{{ x }}{% if x %}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }}",
    "{% macro f() %}{{ y }}{% endmacro %}{% set y = 5 %}{{ f() }}",
    "{% macro f() %}{% set n = 1 %}{{ n }}{% endmacro %}{{ f() }}{{ n }}",
    "{% macro f() %} x {% endmacro %}[{{ f()|trim }}]{{ f }}",
    "{% for i in list %}{% macro g() %}{{ i }}{% endmacro %}{{ g() }}{% endfor %}{{ g is defined }}",
    "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}",
    "{% macro f(a) %}<{{ caller() }}{{ a }}>{% endmacro %}{% call f(1) %}x{{ n }}{% endcall %}",
    "{% macro f() %}{% for i in list %}{{ caller(i, 2) }};{% endfor %}{% endmacro %}{% call(a, b, c=3) f() %}{{ a }}{{ b }}{{ c }}{% endcall %}",
    "{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}",
    "{% call n %}{% endcall %}",
    "{% macro f() %}{{ kwargs|length }}{% endmacro %}{% for i in [1] %}{% call f() %}{{ loop.index }}{% endcall %}{% endfor %}",
    "{% macro f() %}{{ caller() }}{% endmacro %}{% set z = 5 %}{% call f() %}{% set z = 6 %}{{ z }}{% endcall %}{{ z }}",
    "{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x|length }}",
    "{% set x | upper | trim %} a {% endset %}[{{ x }}]",
    "{% filter upper|replace('A', 'x') %}a{{ s }}{% endfilter %}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% set n = 3 %}{{ n }}{% endwith %}{{ n }}{{ a }}",
    "{% with %}{{ n }}{% endwith %}",
    "{% set a = 1, 2 %}{{ a }}",
    "{% generation %}{% set n = 1 %}{{ n }}{% endgeneration %}{{ n }}",
    "{% for i in list %}{% generation %}{{ i }}{{ loop.index }}{% endgeneration %}{% endfor %}",
    "a\n",
    "a\n\n",
    "{{ n }}\n{{ n }}\n",
    "{% if t %}\n  a\n{% endif %}\nb",
    "  {% if t %}  \n  a\n  {% endif %}  \nb",
    "  {{ n }}  \n  {# c #}  \nx",
    "a  {%- if t -%}  b  {%- endif -%}  c",
    "a\n  {%+ if t %}\n  b\n  {%+ endif +%}\nc",
    "{#- c -#}  x",
    "x {#+ c +#}\ny",
    "{# {{ no }} {% no %} #}x",
    "a {{- ' b ' -}} c",
    "\r\na\rb\r\n",
    "{% raw %} {{ x }} {% endraw %}  y",
    "a  {%- raw -%}  {{ x }}  {%- endraw -%}  b",
    "{% raw %}\n{% if %}\n{% endraw %}\nx",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': 1}}}",
    "{{ '}}' }}{{ \"%}\" }}",
    "{{ n",
    "{% if n %}",
    "{% endif %}",
    "{{ }}",
    "{{ n n }}",
    "{% nope %}",
    "{% if %}{% endif %}",
    "{{ (1 }}",
    "{{ 1) }}",
    "{{ 'a }}",
    "{{ n | }}",
    "{{ n is }}",
    "{% for %}{% endfor %}",
    "{% set 1 = 2 %}",
    "{% set true = 2 %}",
    "{# x",
    "{% raw %}x",
    "{{ a b c }}",
    "{{ n ? 1 }}",
    "{{ n; 1 }}",
    "{% for a.b in list %}{% endfor %}",
    "{{ f(a=1, 2) }}",
    "{{ f(**d, *l) }}",
    "{{ 1a }}",
    "{%if n%}a{%else%}b{%endif%}",
    "{%- set x = [\n1,\n2,\n] -%}{{ x }}",
    "{{ [1, 2,] }}{{ {'a': 1,} }}{{ dict(a=1,) }}",
    "{% if n: %}a{% endif %}",
    "{{ dict(**{'a': 1}) }}{{ range(*[1, 3]) | list }}",
    "{{ n.__class__ }}{{ n['__class__'] }}x",
    "{{ ''.__class__.__mro__ }}",
    "{{ s.format.__globals__ }}",
    "{% set loop = 1 %}{% for i in list %}{{ loop.index }}{% endfor %}{{ loop }}",
    "{% set messages = [1] + list %}{% for m in messages %}{{ m }}{% endfor %}",
    "{{ list if list else 'x' }}{{ [] or 'y' }}",
    "{% set j = joiner('|') %}{{ j() }}{{ j() }}{{ j() }}",
    "{% for i in [1,1,2] %}{{ loop.changed(i) }}{% endfor %}",
    "{{ 'é' }}{{ 'a\nb' }}",
    "\ufeffx",
    "{% set ü = 1 %}{{ ü }}",
    "{{ n }}{# a #}{% if t %}{# b #}{% endif %}\n\n{{ n }}",
]


def result(f):
    try:
        return {"text": f()}
    except Exception as e:
        return {"error": type(e).__name__, "message": str(e)}


def render(source):
    return chat_template_utils._compile_jinja_template(source).render(**variables)


def conversation(template, c):
    c = dict(c)
    open = c.get("continue_final_message", False)
    messages = c.pop("messages")
    text, spans = chat_template_utils.render_jinja_template(
        [messages], chat_template=template, return_assistant_tokens_mask=not open, **{**special, **c}
    )
    return text[0], [list(s) for s in spans[0]] if spans else []


def templates():
    for path in sorted((here / "templates").glob("*.jinja")):
        template = path.read_text(encoding="utf-8")
        out = {}
        for name, c in conversations.items():
            spans = []

            def text():
                t, s = conversation(template, c)
                spans.extend(s)
                return t

            out[name] = result(text)
            if spans:
                out[name]["spans"] = spans
        yield path.name, out


def folders():
    """What transformers takes from the files of a folder: special tokens, and templates."""
    words = {w: i for i, w in enumerate(["<unk>", "<s>", "</s>", "a", "<|endoftext|>", "<bos>", "<eos>", "<pad>"])}
    texts = {
        "nothing said": ({}, {}),
        "class": ({"tokenizer_class": "LlamaTokenizerFast"}, {}),
        "class, null": ({"tokenizer_class": "LlamaTokenizer", "bos_token": None, "eos_token": "a"}, {}),
        "object": (
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "bos_token": {
                    "content": "a",
                    "lstrip": False,
                    "normalized": False,
                    "rstrip": False,
                    "single_word": False,
                    "__type": "AddedToken",
                },
            },
            {},
        ),
        "older map": (
            {"tokenizer_class": "GPT2Tokenizer", "eos_token": "a"},
            {
                "special_tokens_map.json": {
                    "eos_token": "</s>",
                    "pad_token": {
                        "content": "<pad>",
                        "lstrip": False,
                        "normalized": False,
                        "rstrip": False,
                        "single_word": False,
                    },
                }
            },
        ),
        "newer config": (
            {"tokenizer_class": "GPT2Tokenizer", "eos_token": "a", "added_tokens_decoder": {}},
            {"special_tokens_map.json": {"eos_token": "</s>"}},
        ),
        "gemma": ({"tokenizer_class": "GemmaTokenizer"}, {}),
        "qwen2": ({"tokenizer_class": "GPT2Tokenizer"}, {"config.json": {"model_type": "qwen2"}}),
        "mistral": (
            {"tokenizer_class": "LlamaTokenizer", "eos_token": "</s>"},
            {"config.json": {"model_type": "mistral"}},
        ),
        "model alone": ({}, {"config.json": {"model_type": "gemma"}}),
        "text": ({"chat_template": "A{{ eos_token }}", "eos_token": "</s>"}, {}),
        "list": (
            {
                "chat_template": [
                    {"name": "default", "template": "D"},
                    {"name": "tool_use", "template": "T"},
                    {"name": "rag", "template": "R"},
                ]
            },
            {},
        ),
        "list without default": (
            {"chat_template": [{"name": "rag", "template": "R"}, {"name": "tool_use", "template": "T"}]},
            {},
        ),
        "file": ({"chat_template": "A"}, {"chat_template.jinja": "F\r\nG\n"}),
        "file and others": (
            {"chat_template": "A"},
            {"chat_template.jinja": "F", "additional_chat_templates/tool_use.jinja": "U"},
        ),
        "others": ({"chat_template": "A"}, {"additional_chat_templates/rag.jinja": "U"}),
        "null": ({"chat_template": None}, {}),
    }
    for name, (config, files) in texts.items():
        dir = pathlib.Path(tempfile.mkdtemp())
        Tokenizer(models.BPE(words, [])).save(str(dir / "tokenizer.json"))
        files = {"config.json": {"model_type": "llama"}, **files, "tokenizer_config.json": config}
        for file, content in files.items():
            (dir / file).parent.mkdir(exist_ok=True)
            (dir / file).write_text(content if isinstance(content, str) else json.dumps(content), newline="")
        t = AutoTokenizer.from_pretrained(str(dir))
        chat = [say("user", "a")]
        yield (
            name,
            {
                "files": {f: c if isinstance(c, str) else json.dumps(c) for f, c in files.items()},
                "special": t.special_tokens_map,
                "plain": result(lambda: t.apply_chat_template(chat, tokenize=False)),
                "tools": result(lambda: t.apply_chat_template(chat, tools=tools, tokenize=False)),
            },
        )
        shutil.rmtree(dir)


golden = {
    "versions": [transformers.__version__, jinja2.__version__],
    "special": special,
    "variables": variables,
    "conversations": conversations,
    "templates": dict(templates()),
    "expressions": [[e, result(lambda: render("{{ " + e + " }}"))] for e in expressions],
    "blocks": [[b, result(lambda: render(b))] for b in blocks],
    "folders": dict(folders()),
}
(here / "chat.json").write_text(json.dumps(golden, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")
print(len(golden["expressions"]), "expressions,", len(golden["blocks"]), "blocks")
