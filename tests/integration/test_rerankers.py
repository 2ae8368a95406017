"""Cross-encoders through sentence-transformers, on tiny real models made here, and language models behind
a real endpoint."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipelines.errors import ModelError, SettingsError
from pipelines.llm.prompts import in_language, templates_of
from pipelines.ports import Passage
from pipelines.query.rerankers import RerankContext, rerank_candidates
from pipelines.query.results import Scored
from pipelines.query.tools import ModelFunctions
from pipelines.settings.base import settings_from
from pipelines.settings.query import CrossEncoderSettings
from resources.llm.factory import language_model
from resources.llm.replies import ReplyStore
from resources.models.rerankers import TransformerCrossEncoder
from resources.postgres.database import Database
from resources.prompts import read_prompts
from tests.support.hostile_models import pickle_weights
from tests.support.llm_server import Answer, LlmServer, first_token, llm_server, says
from tests.support.tiny_model import make_model

QUESTION = "when is the boiler inspected"
PASSAGES = [
    "the boiler is inspected every october",
    "visitors sign the register at the front desk and wear a yellow badge",
    "leaks are reported to the plumber",
    "the boiler",
    "claims above fifty pounds need a receipt",
]


def classifier(folder: Path, labels: int = 1, seed: int = 3) -> Path:
    """A BERT of one layer with a classifier on top, saved as safetensors."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    tokenizer = AutoTokenizer.from_pretrained(make_model(folder.with_name(f"{folder.name}-embedder")))
    torch.manual_seed(seed)
    values: dict[str, Any] = {
        "vocab_size": len(tokenizer), "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 64, "max_position_embeddings": 48, "num_labels": labels, "initializer_range": 0.5,
    }  # fmt: skip
    BertForSequenceClassification(BertConfig(**values)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'query' %}q: {{ message['content'] }} "
    "{% elif message['role'] == 'document' %}d: {{ message['content'] }} {% endif %}{% endfor %}a:"
)


def causal(folder: Path, words: tuple[str, ...] = ("yes", "no"), template: str | None = TEMPLATE) -> Path:
    """A language model of one layer that is read as a yes/no reranker."""
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(make_model(folder.with_name(f"{folder.name}-embedder")))
    tokenizer.add_tokens(list(words))
    tokenizer.chat_template, tokenizer.model_max_length = template, 128
    torch.manual_seed(5)
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=128, initializer_range=0.5, pad_token_id=0, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def scores(model: Path | str | None, passages: list[str] = PASSAGES, **settings: Any) -> list[float]:
    chosen = CrossEncoderSettings(model=None if model is None else str(model), **settings)
    return TransformerCrossEncoder(chosen).scores(QUESTION, passages)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return classifier(tmp_path_factory.mktemp("models") / "reranker")


def test_scores_are_the_sigmoid_of_the_models_logits(model: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    plain, tokenizer = AutoModelForSequenceClassification.from_pretrained(model), AutoTokenizer.from_pretrained(model)
    expected = []
    for passage in PASSAGES:
        with torch.inference_mode():
            logit = plain(**tokenizer(QUESTION, passage, return_tensors="pt")).logits[0, 0]
        expected.append(float(torch.sigmoid(logit)))
    assert scores(model, batch_size=2) == pytest.approx(expected, abs=1e-5)
    assert len({round(value, 4) for value in expected}) == len(PASSAGES)
    assert scores(model, []) == []


def test_the_model_is_loaded_once_and_only_when_asked(model: Path) -> None:
    encoder = TransformerCrossEncoder(CrossEncoderSettings(model=str(model)))
    assert "_model" not in vars(encoder)
    encoder.scores(QUESTION, PASSAGES[:1])
    loaded = encoder._model
    encoder.scores(QUESTION, PASSAGES)
    assert encoder._model is loaded


def test_passages_longer_than_the_model_accepts_are_truncated(model: Path) -> None:
    long = " ".join(["boiler"] * 500)
    assert scores(model, [long]) == pytest.approx(scores(model, [long + " and more"]))
    assert scores(model, [PASSAGES[1]], max_length=16) != pytest.approx(scores(model, [PASSAGES[1]]))


def test_the_second_of_two_labels_means_yes(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    folder = classifier(tmp_path / "two", labels=2)
    plain, tokenizer = AutoModelForSequenceClassification.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        logits = plain(**tokenizer(QUESTION, PASSAGES[0], return_tensors="pt")).logits[0]
    assert scores(folder, PASSAGES[:1]) == pytest.approx([float(torch.softmax(logits, 0)[1])], abs=1e-5)


def test_a_causal_model_answers_yes_or_no(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = causal(tmp_path / "causal")
    plain: Any = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    yes, no = tokenizer.convert_tokens_to_ids(["yes", "no"])
    expected = []
    for passage in PASSAGES:
        messages = [{"role": "query", "content": QUESTION}, {"role": "document", "content": passage}]
        ids = tokenizer.apply_chat_template(messages, return_tensors="pt", return_dict=True)
        with torch.inference_mode():
            last = plain(input_ids=ids["input_ids"], attention_mask=ids["attention_mask"]).logits[0, -1]
        expected.append(float(torch.sigmoid(last[yes] - last[no])))
    assert scores(folder) == pytest.approx(expected, abs=1e-4)
    assert len({round(value, 4) for value in expected}) == len(PASSAGES)


# ---------------------------------------------------------------- what is refused


@pytest.mark.case(29)
def test_pickled_weights_are_refused(model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "pickled"))
    pickle_weights(folder)
    with pytest.raises(ModelError, match=r"no \*\.safetensors in .*pickled weights can run code"):
        scores(folder)


@pytest.mark.case(29)
def test_a_part_with_pickled_weights_is_refused(model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    for part in ("1_Dense", "openvino"):
        (folder / part).mkdir()
        (folder / part / "pytorch_model.bin").write_bytes(b"pickle")
    assert scores(folder) == scores(model)  # what no module names is not read
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "x"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "y"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ModelError, match=r"no \*\.safetensors in .*1_Dense"):
        scores(folder)


@pytest.mark.case(29)
@pytest.mark.parametrize("where", ["config.json", "modules.json"])
def test_code_of_a_model_is_not_run(model: Path, tmp_path: Path, where: str) -> None:
    folder, ran = tmp_path / "code", tmp_path / "ran"
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "modeling_own.py").write_text(f"open({str(ran)!r}, 'w').close()\nclass Own: pass\n")
    if where == "config.json":
        config = json.loads((folder / where).read_text())
        named = {"AutoConfig": "modeling_own.Own", "AutoModelForSequenceClassification": "modeling_own.Own"}
        (folder / where).write_text(json.dumps({**config, "model_type": "own", "auto_map": named}))
    else:
        modules = [{"idx": 0, "name": "0", "path": "", "type": "modeling_own.Own"}]
        (folder / where).write_text(json.dumps(modules))
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"model_type": "CrossEncoder"}))
    with pytest.raises(ModelError, match="cannot be loaded"):
        scores(folder)
    assert not ran.exists()


def test_models_that_are_no_rerankers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has 3 labels; name a reranker, which has 1, or 2"):
        scores(classifier(tmp_path / "three", labels=3))
    with pytest.raises(ModelError, match="its tokenizer lacks 'yes' or 'no'"):
        scores(causal(tmp_path / "mute", words=("ja", "nein")))
    plain = "{% for message in messages %}{{ message['role'] == 'user' and message['content'] or '' }}{% endfor %}"
    with pytest.raises(ModelError, match="cannot read pairs of question and passage"):
        scores(causal(tmp_path / "chat", template=plain))


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"the folder has no config\.json"):
        scores(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"), [(None, "set query.cross_encoder.model"), ("someone/reranker", "query.cross_encoder.revision")]
)
def test_missing_settings_are_named(name: str | None, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        scores(name)


# ---------------------------------------------------------------- language models


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with llm_server() as opened:
        yield opened


def never(*values: Any) -> Any:
    raise AssertionError(f"not to be asked: {values}")


def reranked_by(name: str, server: LlmServer, database: Database, question: str, texts: list[str]) -> Any:
    """(texts in their new order, scores, notes), through the model and prompts that a query has."""
    settings, texts_of = (
        settings_from({"llm": {"base_url": server.url, "model": "judge", "attempts": 2}}),
        read_prompts(),
    )
    store = ReplyStore(database)
    tools = ModelFunctions(
        never,
        never,
        lambda role: language_model(settings, role, store),
        lambda prompt, language: in_language(templates_of(prompt, texts_of[prompt]), language),
        never,
    )
    context = RerankContext(question, settings.query, tools, lambda: None)
    candidates = [Scored(passage_of(str(at), text), 1 / (at + 1), {}) for at, text in enumerate(texts)]
    ranked = rerank_candidates(candidates, [name], context)
    return [item.passage.text for item in ranked], [item.score for item in ranked], context.notes


def passage_of(chunk_id: str, text: str) -> Passage:
    return Passage(chunk_id, "d", 0, "docs", "d.txt", "D", None, "d", "s", ("D",), ("paragraph",), text, "", "",
                   None, None, (), (), None, None)  # fmt: skip


def judged(prompt: str) -> Answer:
    """Так of a passage that names the boiler, Ні of any other, by their probabilities."""
    likely, other = ("Так", "Ні") if "котел" in prompt else ("Ні", "Так")
    return says(likely, "length", logprobs=first_token(**{likely: -0.1, other: -2.5, "Можливо": -4.0}))


@pytest.mark.integration
def test_logprob_through_an_endpoint_in_the_language_of_the_question(server: LlmServer, database: Database) -> None:
    server.reply = judged
    asked = "Коли перевіряють опалення?", ["перепустки дає вахтер", "котел оглядають у жовтні"]
    texts, found, notes = reranked_by("logprob", server, database, *asked)
    assert (texts, notes) == (["котел оглядають у жовтні", "перепустки дає вахтер"], [])
    assert found == pytest.approx([1 / (1 + math.exp(-2.4)), 1 / (1 + math.exp(2.4))])
    bodies = [call.body for call in server.calls]
    assert {(body["max_tokens"], body["logprobs"], body["top_logprobs"]) for body in bodies} == {(1, True, 20)}
    assert all("Відповідай одним словом: Так або Ні" in prompt for prompt in server.prompts)
    server.forget()
    assert reranked_by("logprob", server, database, *asked)[1] == pytest.approx(found)
    assert server.calls == []  # kept, and not bought twice


@pytest.mark.integration
def test_an_endpoint_without_logprobs_is_an_error(server: LlmServer, database: Database) -> None:
    server.reply = lambda prompt: "Yes"
    with pytest.raises(ModelError, match=r"told no token probabilities; take another in llm\.roles\.rerank") as raised:
        reranked_by("logprob", server, database, QUESTION, [f"{number}. {PASSAGES[0]}" for number in range(40)])
    assert raised.value.code == "no_logprobs"
    assert len(server.calls) < 20  # the others are not paid for


@pytest.mark.integration
def test_an_endpoint_that_comes_to_tell_logprobs_is_heard(server: LlmServer, database: Database) -> None:
    asked = "Коли оглядають котел?", ["перепустки дає вахтер", "котел оглядають у серпні"]
    for _ in range(2):
        server.reply = lambda prompt: "Так"
        with pytest.raises(ModelError, match="told no token probabilities"):
            reranked_by("logprob", server, database, *asked)
    server.reply = judged
    _, found, notes = reranked_by("logprob", server, database, *asked)
    assert (len(found), notes) == (2, []) and 0.5 not in found
    server.forget()
    assert reranked_by("logprob", server, database, *asked)[1] == pytest.approx(found)
    assert server.calls == []


@pytest.mark.integration
def test_listwise_through_an_endpoint(server: LlmServer, database: Database) -> None:
    server.reply = lambda prompt: "The order is [3] > [1]."
    texts, _, notes = reranked_by("listwise", server, database, QUESTION, PASSAGES[:3])
    assert (texts, notes) == ([PASSAGES[2], PASSAGES[0], PASSAGES[1]], [])


@pytest.mark.case(7)
@pytest.mark.integration
def test_listwise_asks_again_and_then_keeps_the_incoming_order(server: LlmServer, database: Database) -> None:
    server.reply = lambda prompt: "I like them all."
    texts, _, (note,) = reranked_by("listwise", server, database, QUESTION, PASSAGES)
    assert (texts, len(server.calls)) == (PASSAGES, 2)
    assert note.startswith("listwise: judge gave no order (") and "it names no passage" in note


@pytest.mark.integration
@pytest.mark.parametrize("name", ["logprob", "listwise"])
def test_an_endpoint_that_refuses_is_one_clear_line(name: str, server: LlmServer, database: Database) -> None:
    server.required_key = "right"
    with pytest.raises(ModelError, match=r"model .judge. gave no answer: .*api_key_env") as caught:
        reranked_by(name, server, database, QUESTION, PASSAGES)
    assert "\n" not in str(caught.value)
