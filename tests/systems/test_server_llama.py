"""A server of a Qwen3 from a folder: its chat template, its beginning, and either of its ends."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from http_serving import MODEL, Running, engine, serving
from openai import BadRequestError, OpenAI
from support import ROOT

from nanogpt import GPT, generate, load_model
from nanogpt.checkpoints.tokenizer import tokenizer_for
from nanogpt.server.__main__ import main

BEGIN, END, LAST = "<|begin|>", "<|im_end|>", "<|endoftext|>"
TEMPLATE = """{%- for message in messages %}
{%- if message.content == 'refused' %}{{ raise_exception('not this') }}{% endif %}
{%- if 'secret' in message.content %}{{ message.__class__.__mro__ }}{% endif %}
{{- '[' + message.role + ']' + message.content + eos_token }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '[assistant]' }}
{%- if not enable_thinking %}{{ '<think></think>' }}{% endif %}
{%- endif %}"""
MESSAGES = [{"role": "developer", "content": "be"}, {"role": "user", "content": "or"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The golden Qwen3 with a vocabulary of 320: three special tokens, bytes and their pairs."""
    from byte_pair_folders import trained
    from safetensors.torch import load_file, save_file
    from tokenizers.processors import TemplateProcessing

    to = Path(shutil.copytree(ROOT / "tests/golden/qwen3", tmp_path_factory.mktemp("q") / "qwen3"))
    tensors = {k: t for path in to.glob("*.safetensors") for k, t in load_file(path).items()}
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(320, 24, generator=generator)
    weight[1:3] *= 2.5  # the ends, which so come now and then
    tensors["model.embed_tokens.weight"] = weight
    for path in to.glob("model*"):
        path.unlink()
    save_file(tensors, to / "model.safetensors")
    config = json.loads((to / "config.json").read_text())
    (to / "config.json").write_text(json.dumps(config | {"vocab_size": 320, "eos_token_id": 1}))
    (to / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    names = {"bos_token": None, "eos_token": {"content": END}, "chat_template": TEMPLATE}
    (to / "tokenizer_config.json").write_text(json.dumps(names))
    tokenizer = trained(BEGIN, END, LAST)
    tokenizer.post_processor = TemplateProcessing(single=f"{BEGIN} $A", special_tokens=[(BEGIN, 0)])
    tokenizer.save(str(to / "tokenizer.json"))
    return to


@pytest.fixture(scope="module")
def model(folder: Path) -> GPT:
    return load_model(folder, torch.float64)


@pytest.fixture(scope="module")
def server(model: GPT, folder: Path) -> Iterator[Running]:
    with serving(engine(model), tokenizer=tokenizer_for(folder)) as running:
        yield running


@pytest.fixture
def client(server: Running) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none") as made:
        yield made


def chat(client: OpenAI, seed: int, **more: Any) -> Any:
    asked: Any = {"model": MODEL, "messages": MESSAGES, "max_tokens": 20, "seed": seed}
    return client.chat.completions.create(**asked, temperature=1, **more)


def test_a_chat_is_the_models_own_template_and_either_token_ends_it(
    client: OpenAI, model: GPT, folder: Path
):
    tokenizer = tokenizer_for(folder)
    for thinks, tail, ends in ((False, "<think></think>", 1), (True, "", 2)):
        prompt = f"[system]be{END}[user]or{END}[assistant]{tail}"
        tokens = tokenizer.encode(prompt)
        assert tokens[0] == 0 and tokens == tokenizer.encode(BEGIN + prompt)
        texts = (generate(model, tokens, 20, temperature=1.0, seed=seed) for seed in range(200))
        seed, new = next(
            (seed, new) for seed, new in enumerate(texts) if {1, 2}.intersection(new) == {ends}
        )
        said = b"".join(map(tokenizer.piece, new[: new.index(ends)])).decode(errors="replace")
        more = {"extra_body": {"chat_template_kwargs": {"enable_thinking": True}}} if thinks else {}
        choice = (answer := chat(client, seed, **more)).choices[0]
        assert (choice.message.content, choice.finish_reason) == (said, "stop")
        assert answer.usage.prompt_tokens == len(tokens)
        parts = [part.choices[0].delta.content for part in chat(client, seed, stream=True, **more)]
        assert "".join(part or "" for part in parts) == said


def test_what_a_template_refuses_or_may_not_do_is_a_bad_request(client: OpenAI):
    refused = {"secret": "'__class__' of 'dict' object is unsafe", "refused": "fails .*: not this"}
    for content, said in refused.items():
        messages: Any = [{"role": "user", "content": content}]
        with pytest.raises(BadRequestError, match=said):
            client.chat.completions.create(model=MODEL, messages=messages, max_tokens=1)


def test_a_template_that_is_no_jinja_is_refused_before_the_server_starts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    bad = shutil.copytree(folder, tmp_path / "bad")
    (bad / "chat_template.jinja").write_text("{% if %}")
    with pytest.raises(SystemExit):
        main(["--model", str(bad)])
    assert "error: the chat template cannot be read: Expected" in capsys.readouterr().err
