"""docs/server.md against a running server: its tables, its script, and sentences of its own."""

import re
import sys
from pathlib import Path

import httpx
import pytest
from http_serving import completion, engine, serving
from support import ROOT

from nanogpt import Engine, Policies
from nanogpt.server.live_feed import MOST_REQUESTS
from nanogpt.server.openai_bodies import MAX_STOPS, ChatBody, CompletionBody

OWN = """
def chunk_inputs(tokens, computed, scheduled):
    end = computed + scheduled
    return tokens[computed:end], list(range(computed, end)), end == len(tokens)
"""
DOCS = (ROOT / "docs" / "server.md").read_text()


def rows(title: str) -> list[list[str]]:
    """The cells of the first table under a heading."""
    table = DOCS.partition(f"\n{title}\n")[2].partition("\n|---|---|")[2].partition("\n\n")[0]
    return [line.strip("| ").split(" | ") for line in table.splitlines()[1:]]


def test_the_tables_name_every_route_field_and_metric_and_no_other():
    fields = {name for cell, _ in rows("## Fields") for name in re.findall(r"`(\w+)", cell)}
    known = {*CompletionBody.__struct_fields__, *ChatBody.__struct_fields__}
    assert fields == known - {"model", "prompt", "messages"}
    assert f"up to {MAX_STOPS};" in dict(rows("## Fields"))["`stop`"]
    assert f"lists at most {MOST_REQUESTS} requests" in DOCS
    with serving(engine(block_size=4, max_kv_tokens=40), max_requests=999) as server:
        for cell, _ in rows("## Routes"):
            method, *paths = re.findall(r"(?<=`)(?:GET|POST)|/[\w/{}]+", cell)
            for path in paths:
                url = server.url + path.replace("{model}", "nanogpt")
                status = httpx.request(method, url).status_code
                assert status == (400 if method == "POST" else 200), path
        text = server.get("/metrics").text
        many = server.post("/v1/completions", completion(n=257)).json()["error"]["message"]
        card = server.get("/v1/models/nanogpt").json()
    kinds = {(name, kind) for name, kind in re.findall(r"^# TYPE (\S+:\S+) (\w+)", text, re.M)}
    told = {
        (name, re.search(r"gauge|counter|histogram", kind)[0])  # type: ignore[index]
        for cell, kind in rows("## Metrics")
        for name in re.findall(r"`(\w+:\w+)`", cell)
    }
    assert told == {each for each in kinds if not each[0].endswith("_created")}
    assert all('model_name="nanogpt"' in line for line in re.findall(r"^vllm:.*", text, re.M))
    assert ("process_cpu_seconds_total" in text) == (sys.platform == "linux")
    assert "257 requests; there may be at most 256" in many
    assert card["max_model_len"] == 40  # of the KV budget, not the context of 64


@pytest.mark.process
def test_the_script_with_saved_answers_serves_them(
    learner_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    [script] = re.findall(r"```python\n([^`]*load_policies[^`]*)```", DOCS)
    (learner_folder / "answers").mkdir(parents=True)
    (learner_folder / "answers" / "l01.chunk_inputs.py").write_text(OWN)
    made: list[Engine] = []
    monkeypatch.setattr("nanogpt.server.serve", lambda make, port: made.append(make()))
    exec(script, {})
    assert capsys.readouterr().out.startswith("1 of ")
    assert made[0].policies.chunk_inputs is not Policies().chunk_inputs
    with serving(made[0]) as server:
        assert len(server.complete()) == 20
