"""All splitters: what each promises, and what holds for every one of them on any document."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from pipelines.errors import DocumentError, ModelError
from pipelines.indexing.packed_chunks import SPLITTERS, packed_chunks, segments
from pipelines.indexing.structural_chunks import structural_chunks
from pipelines.parsing.elements import build_elements
from pipelines.ports import Vectors
from pipelines.records import (
    Block,
    BlockCell,
    Box,
    Element,
    PackedChunk,
    ParsedDocument,
    ParsedFile,
    StructuralChunk,
    TextRun,
)
from pipelines.settings.base import ChunkingSettings, settings_from
from pipelines.stages import Frozen, stage_key
from pipelines.tokens import count_tokens
from tests.support.builders import CLAUSE_TOKENS, heading, item, paragraph, raw, table, units
from tests.support.places import DATA, ROOT, needs_data

SOFT = ("structure", "page", "sentences")
"""Splitters that never end a chunk inside a sentence which the next page continues."""

Made = tuple[ParsedDocument, list[Element], list[StructuralChunk], list[PackedChunk]]


def embed(texts: Sequence[str]) -> Vectors:
    """Vectors of letter counts: texts of the same words are alike, whatever their order."""
    assert all(text.strip() for text in texts)
    counts = np.array([[text.count(letter) for letter in "abcdefghijklmnop文д"] for text in texts], np.float32) + 0.1
    return np.asarray(counts / np.linalg.norm(counts, axis=1, keepdims=True), np.float32)


def chunked(strategy: str, *blocks: Block, target: int = 320, ceiling: int = 512, title: str | None = None) -> Made:
    document, elements, made = units(*blocks, title=title)
    return document, elements, made, packed_chunks(made, elements, target, ceiling, strategy, embed)


def texts(strategy: str, *blocks: Block, target: int = 320) -> list[str]:
    return [chunk.text for chunk in chunked(strategy, *blocks, target=target)[3]]


def over_pages(*lines: tuple[int, str]) -> Block:
    return Block("paragraph", tuple(TextRun(text, Box(page, 72, 100, 500, 112)) for page, text in lines))


def test_the_settings_name_every_splitter() -> None:
    named = ChunkingSettings.model_json_schema()["properties"]["strategy"]["enum"]
    assert named == list(SPLITTERS)


def test_the_page_tells_of_every_splitter() -> None:
    page = (ROOT / "docs" / "reference" / "chunking.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(SPLITTERS)


# ---------------------------------------------------------------- page


def test_a_page_is_one_chunk_whatever_its_length() -> None:
    pages = [paragraph("Many words of one page. " * 200, 1), paragraph("A short page.", 2)]
    _, _, _, chunks = chunked("page", heading("One"), *pages, target=16, ceiling=32)
    assert [(chunk.page_start, chunk.page_end, chunk.tokens > 500) for chunk in chunks] == [
        (1, 1, True),
        (2, 2, False),
    ]


def test_a_sentence_belongs_to_the_page_where_it_begins() -> None:
    block = over_pages((1, "The first ends here. The second goes"), (2, "on. The third is on page two."))
    _, _, _, chunks = chunked("page", block, paragraph("The fourth.", 2))
    assert [chunk.text for chunk in chunks] == [
        "The first ends here. The second goes on.",
        "The third is on page two.\n\nThe fourth.",
    ]
    assert [(chunk.page_start, chunk.page_end) for chunk in chunks] == [(1, 2), (2, 2)]
    assert [box.page for box in chunks[0].boxes] == [1, 2]


@pytest.mark.parametrize("strategy", SOFT)
def test_a_sentence_goes_on_in_the_next_block_of_the_next_page(strategy: str) -> None:
    """Its first half ends a page, its second begins another block: a figure stood between."""
    blocks = [paragraph("Nine more short words to fill up all this page. The rule holds for", 1)]
    blocks += [paragraph("all of them. Another sentence of page two that is long enough to stand alone.", 2)]
    made = texts(strategy, heading("One"), *blocks, target=20)
    assert any("The rule holds for\n\nall of them." in text for text in made)


def test_blocks_of_one_page_are_no_halves_of_a_sentence() -> None:
    blocks = [paragraph(text, 1) for text in ("One two three.", "no stop", "small words")]
    assert texts("sentences", *blocks, target=6) == ["One two three.\n\nno stop", "small words"]


def test_the_items_of_a_list_are_no_halves_of_a_sentence() -> None:
    fruit = [
        Block("list_item", (TextRun(name, Box(page, 0, 0, 1, 1)),)) for page, name in enumerate(("figs", "dates"), 1)
    ]
    assert texts("page", *fruit) == ["figs", "dates"]


def test_a_table_row_stays_on_the_page_where_it_begins() -> None:
    cells = tuple(
        BlockCell(row, column, (TextRun(f"{row}{column}", Box(page, 0, 0, 1, 1)),), header=row == 0)
        for row, column, page in ((0, 0, 1), (0, 1, 1), (1, 0, 1), (1, 1, 2), (2, 0, 2), (2, 1, 2))
    )
    assert texts("page", Block("table", cells=cells)) == ["00: 10 | 01: 11", "00: 20 | 01: 21"]


def test_parts_of_a_block_that_do_not_follow_each_other_stay_apart() -> None:
    block = over_pages((1, "The first is here."), (2, "The second is there."), (1, "The third is back."))
    _, _, _, chunks = chunked("page", block)
    assert [chunk.text for chunk in chunks] == ["The first is here.\n\nThe third is back.", "The second is there."]
    assert [len(chunk.spans) for chunk in chunks] == [2, 1]


def test_a_block_without_a_page_stands_on_the_page_before() -> None:
    blocks = [paragraph("One.", 1), Block("formula", (TextRun("E = mc²"),)), paragraph("Two.", 2)]
    assert texts("page", *blocks) == ["One.\n\nE = mc²", "Two."]


def test_documents_without_pages_are_packed_at_the_ends_of_blocks() -> None:
    blocks = [paragraph("five words in a block")] * 5
    assert [text.count("five") for text in texts("page", *blocks, target=16)] == [3, 2]


# ---------------------------------------------------------------- recursive


def test_recursive_cuts_at_paragraphs_before_lines_before_sentences_before_words() -> None:
    blocks = [paragraph("One two."), paragraph("Red tea. Big cat. Old oak. New hat."), item("p"), item("q"), item("r")]
    assert texts("recursive", *blocks, target=7) == ["One two.", "Red tea. Big cat.", "Old oak. New hat.", "p\nq\nr"]
    assert texts("recursive", *blocks, target=2) == [
        *("One", "two."),
        *("Red", "tea.", "Big", "cat.", "Old", "oak.", "New", "hat."),
        *("p\nq", "r"),
    ]


def test_recursive_merges_small_paragraphs_and_never_one_with_a_part_of_a_long_one() -> None:
    blocks = [paragraph("a b"), paragraph("c d"), paragraph("e f g h i j k"), paragraph("l")]
    assert texts("recursive", *blocks, target=5) == ["a b\n\nc d", "e f g h i", "j k", "l"]


def test_recursive_keeps_a_list_together_before_it_fills_a_chunk() -> None:
    assert texts("recursive", paragraph("aa bb"), item("p"), item("q"), item("r"), target=4) == ["aa bb", "p\nq\nr"]


def test_recursive_cuts_code_at_its_lines() -> None:
    code = Block("code", (TextRun("x = 1\n  y = 2\nz = 3"),))
    assert texts("recursive", code, target=4) == ["x = 1", "y = 2", "z = 3"]


@pytest.mark.parametrize("strategy", SPLITTERS)
@pytest.mark.parametrize("target", [63, 64])
def test_no_splitter_cuts_a_letter_from_its_marks(strategy: str, target: int) -> None:
    made = texts(strategy, paragraph("x" + "c\u0327\u0323" * 400), target=target)
    assert len(made) > 1
    assert all(not re.match("[\u0323\u0327]", piece) for piece in made)


# ---------------------------------------------------------------- sentences


def test_sentences_are_packed_whole_across_blocks() -> None:
    blocks = [paragraph("One two three. Four five six."), paragraph("Seven eight nine. Ten.")]
    assert texts("sentences", *blocks, target=12) == [
        "One two three. Four five six.\n\nSeven eight nine.",
        "Ten.",
    ]


def test_a_sentence_over_the_target_is_divided_at_its_mildest_punctuation() -> None:
    long = "one two three four five six; seven eight nine ten eleven twelve."
    assert texts("sentences", paragraph(long), target=8) == [
        "one two three four five six;",
        "seven eight nine ten eleven twelve.",
    ]


# ---------------------------------------------------------------- cluster


def test_cluster_puts_together_what_is_alike() -> None:
    first, second = paragraph("abab " * 40), paragraph("dcdc " * 40)
    made = texts("cluster", first, first, first, second, second, target=400)
    assert [sorted(set(text.split())) for text in made] == [["abab"], ["dcdc"]]


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=8), st.integers(10, 60))
def test_cluster_finds_the_best_cuts_of_all(rows: list[list[int]], most: int) -> None:
    vectors = np.array(rows, np.float32) + 0.25
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    sizes = [10 + 3 * (index % 4) for index in range(len(rows))]
    alike = vectors.astype(np.float64) @ vectors.T.astype(np.float64)
    apart = ~np.eye(len(rows), dtype=bool)
    alike = np.rint((alike - (alike[apart].mean() if len(rows) > 1 else 0)) * 10_000)

    def worth(cuts: Sequence[tuple[int, int]]) -> float:
        return sum(np.triu(alike[a : b + 1, a : b + 1], 1).sum() for a, b in cuts)

    def every() -> list[list[tuple[int, int]]]:
        found = []
        for bits in itertools.product((0, 1), repeat=len(rows) - 1):
            starts = [0, *(place + 1 for place, bit in enumerate(bits) if bit)]
            ends = [*(start - 1 for start in starts[1:]), len(rows) - 1]
            cuts = list(zip(starts, ends, strict=True))
            if all(a == b or sum(sizes[a : b + 1]) <= most for a, b in cuts):
                found.append(cuts)
        return found

    made = segments(vectors, sizes, most)
    assert made in every()
    assert worth(made) >= max(map(worth, every())) - len(rows) ** 2


def test_the_noise_of_arithmetic_moves_no_cut() -> None:
    """Pieces of the same words are alike to the last digit, and all cuts between them worth the same."""
    noise = np.random.default_rng(0)
    _, elements, made = units(*[paragraph("abab " * 50)] * 20)
    exact = packed_chunks(made, elements, 200, 512, "cluster", embed)
    assert [chunk.tokens for chunk in exact] == [200] * 5

    def noisy(texts: Sequence[str]) -> Vectors:
        vectors = embed(texts)
        return np.asarray(vectors + noise.normal(0, 1e-7, vectors.shape), np.float32)

    assert packed_chunks(made, elements, 200, 512, "cluster", noisy) == exact


def test_cluster_compares_only_pieces_that_fit_one_chunk() -> None:
    """100,000 pieces: a matrix of all of them would take 80 GB."""
    vectors = np.tile(np.eye(2, dtype=np.float32), (50_000, 1))
    made = segments(vectors, [50] * 100_000, 100)
    assert made[0][0] == 0 and made[-1][1] == 99_999 and all(b - a < 2 for a, b in made)


def test_cluster_without_an_embedder_says_so() -> None:
    _, elements, made = units(paragraph("Text."))
    with pytest.raises(ModelError, match=r"chunking\.strategy cluster needs the fast embedder"):
        packed_chunks(made, elements, 320, 512, "cluster")


# ---------------------------------------------------------------- header chains


@pytest.mark.parametrize("strategy", ["page", "recursive", "sentences", "cluster"])
def test_the_chain_is_what_all_parts_share_and_the_rest_stands_inline(strategy: str) -> None:
    blocks = [heading("Top"), heading("One", 2), paragraph("First."), heading("Two", 2), paragraph("Second.")]
    _, _, made, (chunk,) = chunked(strategy, *blocks)
    assert chunk.header_chain == ("Top",)
    assert chunk.text == "One\nFirst.\n\nTwo\nSecond."
    assert chunk.spans == tuple(unit.span for unit in made if unit.block_type != "heading")
    assert [chunk.text[offset : offset + 5] for offset in chunk.offsets] == ["First", "Secon"]


def test_an_inline_heading_stands_apart_from_the_list_above() -> None:
    assert texts("sentences", heading("A"), item("x"), heading("B"), item("y")) == ["A\nx\n\nB\ny"]


@pytest.mark.parametrize("strategy", SPLITTERS)
def test_the_rows_of_a_table_keep_their_caption(strategy: str) -> None:
    rows = [(f"City {number}", f"£{number} a night") for number in range(30)]
    blocks = [heading("Limits"), Block("caption", (TextRun("Table 1: Hotels"),)), table(("City", "Limit"), *rows)]
    _, _, _, chunks = chunked(strategy, *blocks, paragraph("After the table."), target=64, ceiling=80)
    held = [chunk for chunk in chunks if "table-row" in chunk.block_types]
    assert len(held) > 3 or strategy == "page"
    assert all("Table 1: Hotels" in chunk.header_chain or "Table 1: Hotels\n" in chunk.text for chunk in held)
    assert all(chunk.text.count("Table 1: Hotels") < 2 for chunk in held)


@pytest.mark.parametrize("strategy", SPLITTERS)
def test_headings_without_text_of_their_own_stand_above_the_text_that_follows(strategy: str) -> None:
    blocks = [
        heading("METHYLURACIL"),
        heading("Composition"),
        paragraph("One. " * 30),
        paragraph("Two."),
        heading("End"),
    ]
    _, _, _, chunks = chunked(strategy, *blocks)
    assert chunks[0].text.startswith("METHYLURACIL\nOne.")
    assert chunks[0].header_chain == ("Composition",)
    assert chunks[-1].text.endswith("\n\nEnd")


# ---------------------------------------------------------------- every splitter, any document

WORDS = st.lists(
    st.sampled_from(
        [
            "word",
            "7",
            "10 000",
            "years;",
            "end.",
            "Дані",
            "речення.",
            "文書。",
            "日本語",
            "👩‍👩‍👧",
            "x" * 300,
            "a,",
            "नमस्ते",
            "e\u0301",
        ]
    ),
    min_size=1,
    max_size=120,
)
PAGE_STEPS = st.integers(0, 1)


def _cells(rows: int, columns: int, heads: Sequence[bool], words: Sequence[str], span: int) -> Block:
    cells = [
        BlockCell(row, column, (TextRun(words[(row * columns + column) % len(words)]),), header=heads[row % len(heads)])
        for row in range(rows)
        for column in range(columns)
    ]
    cells[0] = replace(cells[0], row_span=span)
    return Block("table", cells=tuple(cells))


BLOCKS = st.one_of(
    st.builds(lambda words: paragraph(" ".join(words)), WORDS),
    st.builds(lambda words: item(" ".join(words[:20])), WORDS),
    st.builds(lambda words: Block("code", (TextRun("\n".join(words[:30])),)), WORDS),
    st.builds(lambda words: Block("caption", (TextRun(" ".join(words[:9])),)), WORDS),
    st.builds(lambda words, level: heading(" ".join(words[:4]), level), WORDS, st.integers(1, 4)),
    st.builds(
        _cells, st.integers(1, 5), st.integers(1, 3), st.lists(st.booleans(), min_size=1), WORDS, st.integers(1, 3)
    ),
    st.just(Block("break")),
)


def _paged(blocks: Sequence[Block], steps: Sequence[int]) -> list[Block]:
    """The blocks on pages; every run is divided in two, and a step turns the page between or after them."""
    page, paged = 1, []
    for block, step in zip(blocks, itertools.cycle(steps)):
        runs = []
        for run in block.runs:
            words = run.text.split(" ")
            for half in (words[: len(words) // 2], words[len(words) // 2 :]):
                if half:
                    runs.append(TextRun(" ".join(half), Box(page, 1, 2, 3, 4)))
                    page += step
        paged.append(replace(block, runs=tuple(runs)))
    return paged


def _check(made: Made, strategy: str, limit: int) -> None:
    document, _, found, chunks = made
    covered = np.zeros(len(document.body) + 1, int)
    spans = [span for chunk in chunks for span in chunk.spans]
    for span in [*spans, *(unit.span for unit in found if unit.block_type == "heading")]:
        covered[span.start : span.end] += 1
    content = np.array([not character.isspace() for character in document.body] + [False])
    assert (covered[content] == 1).all() and covered.max(initial=0) <= 1
    assert len({chunk.chunk_id for chunk in chunks}) == len(chunks)
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    if strategy != "page":
        assert spans == sorted(spans, key=lambda span: span.start)
    said = " ".join(" ".join((*chunk.header_chain, chunk.text)) for chunk in chunks).split()
    assert {word for unit in found if unit.block_type == "heading" for word in unit.text.split()} <= set(said)
    for chunk in chunks:
        assert chunk.units and len(chunk.units) == len(chunk.spans) == len(chunk.offsets)
        assert list(chunk.units) == sorted(set(chunk.units))
        own = [found[index] for index in chunk.units]
        rows = [unit for unit in own if unit.block_type == "table-row"]
        for unit, span, offset in zip(own, chunk.spans, chunk.offsets, strict=True):
            whole = unit.text if unit in rows else document.body[span.start : span.end]
            assert whole.strip() and chunk.text[offset : offset + len(whole)] == whole
            assert unit not in rows or span == unit.span
            assert unit.header_chain[: len(chunk.header_chain)] == chunk.header_chain
            assert all(text in chunk.text for text in unit.header_chain[len(chunk.header_chain) :])
        assert strategy == "page" or chunk.tokens <= limit or (len(own) == 1 and rows)
        pages = [page for unit in own for page in (unit.page_start, unit.page_end) if page]
        assert chunk.page_start is None or min(pages) <= chunk.page_start <= (chunk.page_end or 0) <= max(pages)
        assert {box.page for box in chunk.boxes} <= set(range(chunk.page_start or 0, (chunk.page_end or 0) + 1))


@settings(max_examples=120)
@given(st.lists(BLOCKS, min_size=1, max_size=15), st.lists(PAGE_STEPS, min_size=1, max_size=9), st.booleans())
@example([paragraph("\u0323" * 400)], [0], False)
def test_every_splitter_keeps_the_invariants(blocks: list[Block], steps: list[int], paged: bool) -> None:
    try:
        document, elements, found = units(*(_paged(blocks, steps) if paged else blocks))
    except DocumentError as error:
        assert error.code == "empty_parse"
        return
    again = structural_chunks(document, elements, CLAUSE_TOKENS)
    for strategy in SPLITTERS:
        note(strategy)
        chunks = packed_chunks(found, elements, 40, 64, strategy, embed)
        _check((document, elements, found, chunks), strategy, 64 if strategy == "structure" else 40)
        assert packed_chunks(again, elements, 40, 64, strategy, embed) == chunks


@pytest.mark.parametrize("strategy", SPLITTERS)
def test_a_swap_of_the_embedder_changes_no_chunk(strategy: str) -> None:
    keys = {
        stage_key("packed_chunks", settings_from({"chunking": {"strategy": strategy}, "embedder": embedder}), frozen)
        for embedder, frozen in [
            ({"preset": "english-small"}, Frozen({"en": 0.4}, "a")),
            ({"model": "some/other", "max_tokens": 256}, Frozen({"en": 0.4}, "b")),
        ]
    }
    assert len(keys) == 1


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("strategy", SPLITTERS)
@pytest.mark.parametrize("text", ["x" * 100_000, "." * 20_000 + "x", "文" * 20_000, "123 " * 10_000, "\u0323" * 9999])
def test_endless_texts_are_cut_within_the_limit(strategy: str, text: str) -> None:
    document, _, _, chunks = chunked(strategy, paragraph(text))
    assert all(chunk.tokens <= 512 for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks).replace(" ", "") == document.body.replace(" ", "")


def test_a_thousand_nested_headings_have_short_chains() -> None:
    nested = [(heading(f"Heading {level}", level), paragraph(f"Text {level}.")) for level in range(1, 1_001)]
    _, elements, found = units(*itertools.chain(*nested))
    assert max(len(unit.header_chain) for unit in found) == 17
    assert found[-1].header_chain[-1] == "Heading 1000" and found[-1].header_chain[0] == "Heading 1"
    for strategy in SPLITTERS:
        chunks = packed_chunks(found, elements, 320, 512, strategy, embed)
        assert sum(len(chunk.text) for chunk in chunks) < 500_000, strategy


@pytest.mark.parametrize("strategy", SPLITTERS)
def test_nothing_gives_no_chunk(strategy: str) -> None:
    assert packed_chunks([], [], 320, 512, strategy, embed) == []
    with pytest.raises(DocumentError, match="no text was found"):
        chunked(strategy, Block("break"))


@pytest.mark.faults
def test_a_table_of_a_hundred_thousand_rows() -> None:
    rows = [(f"row {number}", "two words", "7") for number in range(100_000)]
    _, elements, made = units(table(("A", "B", "C"), *rows))
    for strategy in SPLITTERS:
        chunks = packed_chunks(made, elements, 320, 512, strategy, embed)
        assert sum(chunk.text.count("A: row ") for chunk in chunks) == 100_000
        assert all(chunk.text.startswith("A: row ") and chunk.text.endswith("C: 7") for chunk in chunks)


# ---------------------------------------------------------------- real pages


def _open_at_page_ends(made: Made) -> list[str]:
    """The ends of chunks that stop inside a sentence which the next page continues."""
    document, _, found, chunks = made
    cut = []
    for before, after in itertools.pairwise(chunks):
        left, right = found[before.units[-1]], found[after.units[0]]
        kinds = {left.block_type, right.block_type}
        turned = after.page_end and before.page_start and after.page_end > before.page_start
        if not turned or "table-row" in kinds or (kinds == {"list-item"} and left is not right):
            continue
        end, start = document.body[: before.spans[-1].end], document.body[after.spans[0].start :]
        inside = left is right and not re.search(r"[.!?…:;]\W*$", end[-9:])
        goes_on = left.index + 1 == right.index and left.page_end != right.page_start and start[:1].islower()
        if inside or (goes_on and re.search(r"[\w,–—-]$", end)):
            cut.append(f"{end[-40:]!r} | {start[:40]!r}")
    return cut


@pytest.mark.faults
@pytest.mark.slow
@needs_data("")
@pytest.mark.parametrize("folder", ["policies", "unlp-medicine", "parser-fixtures"])
def test_no_page_boundary_cuts_a_sentence(folder: str) -> None:
    from resources.parsers.registry import parse_file

    read, cut = 0, []
    for path in sorted((DATA / folder).rglob("*.pdf")):
        try:
            parsed: ParsedFile = parse_file(path, "application/pdf")
            document, elements = build_elements(raw(path.name, size=1), parsed, lambda text: "en")
        except DocumentError as error:
            assert error.code == "no_text"
            continue
        found = structural_chunks(document, elements, CLAUSE_TOKENS)
        read += 1
        for strategy in SOFT:
            made = document, elements, found, packed_chunks(found, elements, 320, 512, strategy)
            cut += [f"{strategy} {path.name}: {place}" for place in _open_at_page_ends(made)]
    assert read > 4
    assert not cut


def test_tokens_of_a_chunk_are_those_of_its_own_text() -> None:
    _, _, _, (chunk,) = chunked("recursive", heading("One"), paragraph("Two words."), heading("Two"), paragraph("x y"))
    assert chunk.tokens == count_tokens("Two words.") + count_tokens("x y")
