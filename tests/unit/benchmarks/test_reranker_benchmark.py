"""The benchmark of a reranker of our own: its windows, made questions, groups, folds and judgement."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from benchmarks.reranker.data import grouped, in_lines, manuals, nearest, pod
from benchmarks.reranker.judge import Judged, area, by_weight, chosen, evidence, first_rank, gains, judged, judgement
from benchmarks.reranker.windows import (
    LONGEST_WINDOW,
    Asked,
    Pair,
    Text,
    header,
    made,
    misspelt,
    read_asked,
    read_texts,
    starts,
    window,
    write_lines,
)

SENTENCES = tuple(f"Sentence {number} tells of the {number}th of many things at length." for number in range(20))
TEXT = Text("a", "en", ("Manual", "Part", "How to clean the filter"), SENTENCES)
VALUES = dict.fromkeys(("dense", "lexical", "nearest_sentence", "document"), (3.0, 2.0, 1.0))


def asked(corpus: str = "a", gold: int = 1, answerable: bool = True) -> Asked:
    return Asked(corpus, "Which?", (0, 1, 2), (0, 0, 0), VALUES, ((gold,),) if answerable else (), answerable)


# ---------------------------------------------------------------- windows and made questions


def test_a_window_holds_the_nearest_sentence_with_its_neighbours_under_its_headings() -> None:
    shown = window(TEXT.headings, SENTENCES, 7)
    assert shown.startswith("Manual › Part › How to clean the filter. ") and len(shown) <= LONGEST_WINDOW + 4
    assert all(SENTENCES[at] in shown for at in (6, 7, 8)) and SENTENCES[0] not in shown


def test_a_window_of_a_sentence_over_the_limit_is_that_sentence() -> None:
    assert window(("A",), ("x" * 900, "y"), 0) == f"A. {'x' * 900}"
    assert window(("A", ""), (), 0) == "A"


def test_a_header_has_the_first_and_the_last_two_headings_once() -> None:
    assert header(("file", "One", "Two", "Three")) == "file › Two › Three"
    assert header(("Same", "Same")) == "Same" and header(()) == ""


def test_windows_from_all_starts_hold_every_sentence() -> None:
    shown = " ".join(window(TEXT.headings, SENTENCES, at) for at in starts(TEXT))
    assert all(sentence in shown for sentence in SENTENCES)


def test_made_questions_are_the_same_each_time_and_a_heading_is_not_in_its_own_window() -> None:
    pairs = made([TEXT], 3, seed=1)
    assert pairs == made([TEXT], 3, seed=1) != made([TEXT], 3, seed=2)
    (heading,) = [pair for pair in pairs if pair.kind == "heading"]
    assert "filter" in heading.question.lower() and "filter" not in heading.window
    assert len(pairs) == 4


def test_a_misspelt_word_differs_by_one_slip() -> None:
    chance = random.Random(0)
    for wrong in (misspelt("premium", chance) for _ in range(20)):
        assert wrong == "premium" or 6 <= len(wrong) <= 8
    assert misspelt("tax", chance) == "tax"


def test_texts_and_questions_are_read_as_written(tmp_path: Path) -> None:
    write_lines(tmp_path / "t.xz", [TEXT])
    write_lines(tmp_path / "a.xz", [asked()])
    assert read_texts(tmp_path / "t.xz") == [TEXT]
    (found,) = read_asked(tmp_path / "a.xz")
    assert (found.candidates, found.places, found.gold) == ((0, 1, 2), ((1,),), {1})


# ---------------------------------------------------------------- data


def test_pages_of_manuals_become_texts_under_their_headings(tmp_path: Path) -> None:
    (tmp_path / "doc" / "tool").mkdir(parents=True)
    (tmp_path / "help" / "uk" / "app").mkdir(parents=True)
    body = "This tool reads files and writes what it found. It says how many there were. " * 3
    (tmp_path / "doc" / "tool" / "a.html").write_text(f"<h1>Tool</h1><h2>Use</h2><p>{body}</p><script>no()</script>")
    page = (
        f"<page><info><desc>x</desc></info><title>Звук</title><section><title>Гучність</title><p>{body}</p></section>"
    )
    (tmp_path / "help" / "uk" / "app" / "b.page").write_text(page, encoding="utf-8")
    found = {text.language: text for text in manuals(tmp_path, None)}
    assert (found["en"].corpus, found["en"].headings) == ("tool", ("Tool", "Use"))
    assert (found["uk"].corpus, found["uk"].headings) == ("help-app", ("Звук", "Гучність"))
    assert found["en"].sentences[0] == "This tool reads files and writes what it found."


def test_a_pod_page_loses_its_marks() -> None:
    assert pod("=head1 One\n\nRead C<perl> B<now>.\n\n=over\n\n=head2 Two\n\nMore.") == [
        (("One",), "Read perl now."), (("One", "Two"), "More."),
    ]  # fmt: skip


def test_a_long_text_is_divided() -> None:
    blocks = [(("A",), f"Block {number} {'with words ' * 20}") for number in range(20)]
    assert len(list(grouped("a", "en", blocks))) > 2


def test_the_nearest_sentence_is_by_cosine_or_by_shared_words() -> None:
    assert nearest("ignored", ["a", "b"], [0.1, 0.9]) == 1
    assert nearest("who parses headers", ["def write():", "def parse_headers():  # parses headers"], [None, None]) == 1
    assert in_lines("a\n\n b ") == ["a", "b"] and in_lines("") == [""]


# ---------------------------------------------------------------- the judgement


def test_the_reranker_alone_and_in_the_sum_reorder_the_first_candidates() -> None:
    one = Judged(asked(), np.array([0.0, 5.0, 1.0]))
    assert (one.order(0.0), one.order(None)) == ([0, 1, 2], [1, 2, 0])
    assert one.order(20.0)[0] == 1
    assert gains([one], None).tolist() == [1.0] and gains([one], 0.1).tolist() == [0.0]


def test_the_weight_of_a_set_is_chosen_on_the_others() -> None:
    better = [Judged(asked(), np.array([0.0, 5.0, 1.0]))] * 3
    worse = [Judged(asked(gold=0), np.array([0.0, 5.0, 1.0]))] * 3
    assert chosen({"a": better, "b": worse}, "b") > 0 and chosen({"a": better, "b": worse}, "a") == 0.0


def test_the_gate_asks_for_a_gain_of_three_points_and_no_set_that_loses() -> None:
    better = [Judged(asked(), np.array([0.0, 5.0, 1.0]))] * 9
    worse = [Judged(asked(gold=0), np.array([0.0, 5.0, 1.0]))] * 9
    lines, passes = judgement({"a": better, "b": better})
    assert passes and "+100.0 (+100.0 to +100.0)" in lines[-1]
    assert not judgement({"a": better, "b": better, "c": worse})[1]
    assert not judgement({"a": worse, "b": worse})[1]
    assert "mean" in by_weight({"a": better})[-1]


def test_gold_recall_of_code_counts_places_among_five() -> None:
    one = Asked("contextual-code", "?", tuple(range(8)), (0,) * 8, {}, ((0, 7), (6,)))
    assert first_rank(one, list(range(8))) == 0.5


def test_scores_must_be_those_of_the_candidates() -> None:
    assert [len(one.scores) for one in judged([asked(), asked()], np.zeros(6, np.float32))] == [3, 3]
    with pytest.raises(ValueError, match="6 candidates, but 5 scores"):
        judged([asked(), asked()], np.zeros(5, np.float32))


def test_the_area_under_the_curve_counts_pairs() -> None:
    assert area([3.0, 1.0], [2.0, 1.0]) == 0.625
    own = [Judged(asked(), np.array([0.0, 5.0, 1.0])), Judged(asked(answerable=False), np.array([0.0, 1.0, 0.5]))]
    assert "1.000" in evidence({"a": own})[-1] and len(evidence({"a": own[:1]})) == 2


# ---------------------------------------------------------------- training


def test_real_groups_hold_the_best_gold_against_what_is_not_gold() -> None:
    from benchmarks.reranker.train import real_groups

    texts = [Text("a", "en", (), (f"text {at}",)) for at in range(3)]
    (group,) = real_groups("a", [asked(), asked(answerable=False)], texts)
    assert (group.positive, group.negatives) == ("text 1", ("text 0", "text 2"))


def test_every_set_that_may_be_trained_on_is_left_out_by_a_fold() -> None:
    from benchmarks.reranker.train import LEFT_OUT, TRAINABLE

    assert sorted(name for own in LEFT_OUT.values() for name in own) == sorted(TRAINABLE)


def test_the_order_shows_real_questions_again_and_again_and_made_ones_first() -> None:
    from benchmarks.reranker.train import REAL_TIMES, Group, capped, schedule

    groups = [Group("a", "en", kind, str(at), "p", ("n",)) for at, kind in enumerate(["cloze"] * 8 + ["real"] * 2)]
    order = schedule(groups, random.Random(1))
    assert len(order) == 8 + 2 * REAL_TIMES and {one.kind for one in order[:8]} == {"cloze"}
    assert len(capped(groups[:8], random.Random(1))) == 8


def test_a_generated_question_that_words_do_not_lead_back_is_left_out() -> None:
    from benchmarks.reranker.train import made_groups

    colours = ("red", "blue", "green", "pink", "grey", "cyan", "teal", "black", "white")
    cloze = [Pair("a", "en", f"colour {word}", f"The colour is {word}.") for word in colours]
    lost = Pair("a", "en", "What is the colour teal?", "Something else entirely.", "generated")
    log: list[str] = []
    groups = made_groups([*cloze, lost], "cpu", log)
    assert len(groups) == 9 and log == ["a en: 9 of 10 made questions"]
    assert all(group.positive not in group.negatives for group in groups)


def test_a_pruned_tokenizer_keeps_latin_and_cyrillic_pieces_and_its_special_ones() -> None:
    from benchmarks.reranker.train import pruned

    pieces = [
        ["<s>", 0.0],
        ["<pad>", 0.0],
        ["</s>", 0.0],
        ["<unk>", 0.0],
        ["▁так", -1.0],
        ["日本", -2.0],
        ["▁yes", -3.0],
    ]
    pieces.append(["<mask>", 0.0])
    tokenizer = {
        "model": {"vocab": pieces, "unk_id": 3},
        "added_tokens": [{"id": at} for at in (0, 1, 2, 3, 7)],
        "post_processor": {"special_tokens": {"<s>": {"ids": [0]}, "<mask>": {"ids": [7]}}},
    }
    made_of, rows = pruned(json.loads(json.dumps(tokenizer)))
    assert rows == [0, 1, 2, 3, 4, 6, 7] and made_of["model"]["vocab"][5] == ["▁yes", -3.0]
    assert (
        made_of["post_processor"]["special_tokens"]["<mask>"]["ids"] == [6] and made_of["added_tokens"][-1]["id"] == 6
    )


def test_weights_come_back_from_eight_bits(tmp_path: Path) -> None:
    from benchmarks.reranker.train import load, save

    values = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    save(tmp_path / "w.npz", {"a.weight": values, "a.bias": values[0]}, "{}", "tokens")
    tensors, config, tokenizer = load(tmp_path / "w.npz")
    assert np.allclose(tensors["a.weight"].numpy(), values, atol=0.02) and (config, tokenizer) == ({}, "tokens")
    assert np.allclose(tensors["a.bias"].numpy(), values[0], atol=0.002)
