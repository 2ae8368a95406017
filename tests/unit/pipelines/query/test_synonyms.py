"""Synonym files are read as Solr reads them, mistakes are told by line, and entries are found in questions by terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import SettingsError
from pipelines.query import synonyms
from pipelines.query.synonyms import (
    MOST_ADDED,
    MOST_CHARACTERS,
    MOST_ENTRY_CHARACTERS,
    MOST_RULES,
    MOST_WORDS,
    Expansion,
    Synonyms,
    read_synonyms,
)
from pipelines.terms import terms_of
from tests.support.growth import Parts, assert_linear


def found(file: str, question: str) -> list[Expansion]:
    return read_synonyms(file, "words.txt").found_in(terms_of(question))


def added(file: str, question: str) -> list[tuple[str, list[str]]]:
    """Return entries with what is added to them; `=` stands before what is replaced."""
    return [(("=" if each.replaces else "") + each.asked, [one.text for one in each.added])
            for each in found(file, question)]  # fmt: skip


# ---------------------------------------------------------------- rules


def test_each_entry_of_a_list_adds_the_others() -> None:
    file = "laptop, notebook computer, portable"
    assert added(file, "Which laptops?") == [("laptop", ["notebook computer", "portable"])]
    assert added(file, "a notebook computer") == [("notebook computer", ["laptop", "portable"])]


def test_an_arrow_replaces_the_left_side_by_the_right_one() -> None:
    file = "capex, capital spending => PP&E purchases, investment"
    assert added(file, "the capex") == [("=capex", ["PP&E purchases", "investment"])]
    assert added(file, "capital spending") == [("=capital spending", ["PP&E purchases", "investment"])]
    assert added(file, "an investment") == []


def test_a_right_side_that_repeats_the_entry_keeps_it() -> None:
    assert added("capex => capex, investment", "capex") == [("capex", ["investment"])]


def test_rules_of_the_same_entry_add_up_and_each_addition_knows_its_line() -> None:
    (expansion,) = found("a1 => b1\n\nA1 => c1, b1\n", "a1")
    assert [(each.text, each.terms, each.line) for each in expansion.added] == [("b1", ("b1",), 1), ("c1", ("c1",), 3)]
    assert (expansion.asked, expansion.line, expansion.replaces) == ("a1", 1, True)


def test_an_entry_that_a_list_keeps_is_not_replaced_by_another_rule() -> None:
    assert added("a1 => b1\na1, c1", "a1") == added("a1 => b1\na1, c1", "A1") == [("a1", ["b1", "c1"])]


def test_additions_are_not_looked_up_again() -> None:
    assert added("a1 => b1\nb1 => c1", "a1") == [("=a1", ["b1"])]


def test_an_entry_never_adds_its_own_terms_nor_the_same_terms_twice() -> None:
    file = "car, cars, auto, autos"
    assert added(file, "cars") == [("car", ["auto"])]
    assert added("car, cars", "car") == []


@pytest.mark.parametrize(
    ("rule", "asked", "expected"),
    [
        (r"property\, plant and equipment, PP&E", "property, plant and equipment", "property, plant and equipment"),
        (r"a1\\b1, c1", "a1 b1", r"a1\b1"),
        (r"x\=>y, c1", "x y", "x=>y"),
        (r"x \-> y, c1", "x y", "x -> y"),
        (r"\#metoo, c1", "metoo", "#metoo"),
        (r"room #5, c1", "room 5", "room #5"),
        (r"e = mc2, c1", "e mc2", "e = mc2"),
        ("  two \t words ,c1", "two words", "two words"),
        (r"\o\d\d, c1", "odd", "odd"),
    ],
)
def test_a_backslash_takes_the_meaning_from_a_character(rule: str, asked: str, expected: str) -> None:
    assert [name for name, _ in added(rule, asked)] == [expected]


def test_comments_empty_lines_and_every_end_of_line_are_passed_over() -> None:
    file = "# words, of mine => here\r\n\r\n  # more\ra1, b1\n\n#\nc1 => d1"
    assert [(each.asked, each.line) for each in found(file, "a1 c1")] == [("a1", 4), ("c1", 7)]


def test_a_byte_order_mark_is_no_part_of_an_entry() -> None:
    assert added("\ufeffa1, b1", "a1") == [("a1", ["b1"])]


def test_a_file_of_comments_adds_nothing() -> None:
    assert added("# nothing yet\n", "a1") == added("", "a1") == Synonyms().found_in(["a1"]) == []


# ---------------------------------------------------------------- places in a question


def test_the_longest_entry_counts_and_none_overlaps_another() -> None:
    file = "new york, NY\nyork, Y1\nnew york city hall, NYCH\ncity, town"
    places = [(each.start, each.end, each.asked) for each in found(file, "New York city of York, city")]
    assert places == [(0, 2, "new york"), (2, 3, "city"), (4, 5, "york"), (5, 6, "city")]
    assert [each.end for each in found(file, "new york city hall")] == [4]


def test_an_entry_that_breaks_off_leaves_its_words_to_others() -> None:
    file = "a1 b1 c1 d1, x1\nb1 c1, y1"
    assert [(each.start, each.end) for each in found(file, "a1 b1 c1 e1")] == [(1, 3)]


def test_an_entry_that_adds_nothing_still_keeps_its_words_from_shorter_ones() -> None:
    assert added("new york => new york\nyork => Y1", "new york, york") == [("=york", ["Y1"])]


def test_a_word_that_a_question_repeats_is_found_each_time() -> None:
    assert [each.start for each in found("a1, b1", "a1 x a1")] == [0, 2]


@pytest.mark.parametrize(
    ("file", "question", "expected"),
    [
        ("міністерство оборони, МОУ", "Хто очолює Міністерства оборон?", [("міністерство оборони", ["МОУ"])]),
        ("invoice => bill of sale", "INVOICES", [("=invoice", ["bill of sale"])]),
        ("ліки, medicine", "medicines", [("medicine", ["ліки"])]),
        ("комп'ютер, computer", "комп’ютери", [("комп'ютер", ["computer"])]),
        ("手机, mobile phone", "我的手机", [("手机", ["mobile phone"])]),
    ],
)
def test_inflected_words_of_any_script_agree(file: str, question: str, expected: object) -> None:
    assert added(file, question) == expected


WORDS = st.lists(st.sampled_from(["a1", "b1", "c1", "d1"]), min_size=1, max_size=4).map(" ".join)


@given(st.lists(st.lists(WORDS, min_size=2, max_size=4), max_size=5), st.lists(WORDS, max_size=4).map(" ".join))
def test_found_synonyms_stand_in_the_question(rules: list[list[str]], question: str) -> None:
    terms, end = terms_of(question), 0
    for each in found("\n".join(map(", ".join, rules)), question):
        assert end <= each.start < each.end
        assert terms[each.start : each.end] == terms_of(each.asked)
        assert each.asked in rules[each.line - 1]
        assert len({one.terms for one in each.added} | {tuple(terms_of(each.asked))}) == len(each.added) + 1
        end = each.end


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("a1,, b1", "empty entry"),
        ("a1, b1,", "empty entry"),
        (", a1", "empty entry"),
        ("a1, => b1", "empty entry"),
        ("a1 => b1,", "empty entry"),
        ("=> b1", "nothing on its left"),
        ("a1 =>", "nothing on its right"),
        ("=>", "nothing on its left"),
        ("a1 => b1 => c1", "two arrows"),
        ("a1 =>=> c1", "two arrows"),
        ("a1 -> b1, c1", "has '->' where a rule has =>"),
        ("a1 → b1, c1", "has '→'"),
        ("a1 <=> b1", "has '<='"),
        ("a1, &&", "'&&' has no letter or digit"),
        ("— => a1", "'—' has no letter or digit"),
        ("a1", "single entry"),
        (r"a1\, b1", "single entry"),
        ("a1, b1 \\", "ends with a backslash"),
        ("a1, b1 # mine", "a comment after a rule"),
        ("a1, b\x001", "NUL"),
        ("a1, b\ud8001", "half of a surrogate pair"),
        ("a1, " + "x " * (MOST_WORDS + 1), f"has {MOST_WORDS + 1} words; at most {MOST_WORDS}"),
        ("a1, " + "x" * (MOST_ENTRY_CHARACTERS + 1), f"at most {MOST_ENTRY_CHARACTERS} are taken"),
        (",".join(f"w{each}" for each in range(MOST_ADDED + 2)), "'w0' has more than 100 synonyms"),
        ("w0 => " + ",".join(f"w{each}" for each in range(1, MOST_ADDED + 2)), "more than 100 synonyms"),
    ],
)
def test_a_mistake_is_told_with_its_line(line: str, told: str) -> None:
    with pytest.raises(SettingsError) as error:
        read_synonyms(f"# mine\r\nx1, y1\r\n{line}\nx1, z1\n", "words.txt")
    assert str(error.value).startswith("words.txt line 3: ")
    assert told in str(error.value)
    assert len(str(error.value)) < 250


def test_entries_just_within_the_limits_are_read() -> None:
    long = ["x " * MOST_WORDS, "x" * MOST_ENTRY_CHARACTERS, *(f"w{each}" for each in range(MOST_ADDED - 1))]
    (expansion,) = found(",".join(long), "x " * MOST_WORDS)
    assert len(expansion.added) == MOST_ADDED


def test_synonyms_of_several_lines_are_counted_together() -> None:
    lines = [f"a1 => w{each}" for each in range(MOST_ADDED)]
    assert len(found("\n".join(lines), "a1")[0].added) == MOST_ADDED
    with pytest.raises(SettingsError, match=rf"line {MOST_ADDED + 1}: 'a1' has more than"):
        read_synonyms("\n".join([*lines, "a1 => a1"]), "words.txt")


def test_a_file_has_limits() -> None:
    with pytest.raises(SettingsError, match=r"words.txt: the file has 1,000,001 characters; at most 1,000,000"):
        read_synonyms("#" * (MOST_CHARACTERS + 1), "words.txt")
    read_synonyms("#" * MOST_CHARACTERS, "words.txt")
    rules = [f"a{each}, b{each}\n#" for each in range(MOST_RULES + 1)]
    read_synonyms("\n".join(rules[:-1]), "words.txt")
    with pytest.raises(SettingsError, match=rf"line {2 * MOST_RULES + 1}: more than 10,000 rules"):
        read_synonyms("\n".join(rules), "words.txt")


# ---------------------------------------------------------------- growth


def counted(made: Callable[[int], tuple[str, str]]) -> Callable[[int], Mapping[str, int]]:
    def measured(length: int) -> Mapping[str, int]:
        parts = Parts()
        file, question = made(length)
        terms = terms_of(question)
        terms_of(file[:MOST_CHARACTERS])  # the words are known before anything is counted

        def read() -> Synonyms:
            try:
                return read_synonyms(file, "words.txt")
            except SettingsError:
                return Synonyms()

        read_file = parts.counted("reading", read)
        parts.counted("finding", lambda: read_file.found_in(terms))
        return parts.steps

    return measured


@pytest.mark.defends("1c")
@pytest.mark.parametrize(
    "made",
    [
        lambda n: (",".join(f"w{each}" for each in range(n)) + "=> x1, y1", ""),
        lambda n: ("x1, y1 =>" + ",".join(f"w{each}" for each in range(n)), ""),
        lambda n: ("\n".join(f"w w{each}, w w{each} w" for each in range(n)), "w " * n),
        lambda n: ("a " * MOST_WORDS + ", b\na b, c", "a " * n),
        lambda n: (",".join(f"w{each}" for each in range(MOST_ADDED)), "w1 w2 " * n),
        lambda n: ("a1 => a1\n" * n, "a1 " * n),
        *(lambda n, unit=unit: (unit * n, "") for unit in ("\\", ",", "=", "=>", "#\n", "a", "a ", "a,", "\r", "-")),
    ],
)
def test_time_grows_with_the_file_and_the_question(
    made: Callable[[int], tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synonyms, "MOST_RULES", 1 << 30)
    monkeypatch.setattr(synonyms, "MOST_CHARACTERS", 1 << 30)
    assert_linear(counted(made), 2_000)
