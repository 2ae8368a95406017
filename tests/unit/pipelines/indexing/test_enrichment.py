from __future__ import annotations

import numpy as np
import pytest

from pipelines.indexing.embeddings import average_windows, embedded_text, windows
from pipelines.indexing.enrichment import chunk_contexts, document_summary, window
from pipelines.llm.reply_text import clip
from pipelines.records import Block, Chunk, Sentence, TextRun
from pipelines.settings.models import EnrichmentSettings
from tests.support.builders import heading, paragraph, units
from tests.unit.pipelines.indexing.test_sentences import LONG, skeleton


def parts() -> tuple[list[Chunk], list[Sentence]]:
    chunks, found, _ = skeleton(
        heading("Retention of records"),
        paragraph("Records of contracts are kept for seven years after the contract ends. Lunch was good."),
        heading("Destruction of records"),
        paragraph("Records of contracts are destroyed by two witnesses. " + LONG),
    )
    return chunks, found


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [(0, []), (3, [0, 1, 2]), (10, list(range(10))), (14, [0, 1, 2, 3, 4, 9, 10, 11, 12, 13])],
)
def test_the_window_of_a_summary(chunks: int, expected: list[int]) -> None:
    assert window(chunks, EnrichmentSettings().summary_window) == expected
    assert window(14, 5) == [0, 1, 11, 12, 13]


def test_a_summary_is_of_the_documents_own_sentences_within_its_length() -> None:
    chunks, found = parts()
    made = document_summary("d", found, [chunk.chunk_id for chunk in chunks], 160, 10)
    assert 0 < len(made.text) <= 160 and made.method == "extractive"
    assert "Records of contracts" in made.text and "Lunch" not in made.text
    assert all(piece.strip(". ") in " ".join(s.text for s in found) for piece in made.text.split(". "))


def test_a_summary_of_one_endless_sentence_is_clipped_at_a_word() -> None:
    chunks, found, _ = skeleton(paragraph("words without any end " * 20))
    made = document_summary("d", found, [chunk.chunk_id for chunk in chunks], 60, 10)
    assert len(made.text) <= 60 and made.text.endswith("…")


def test_no_sentences_no_summary() -> None:
    assert document_summary("d", [], [], 250, 10).text == ""


def test_contexts_name_title_headings_and_the_key_sentence_before() -> None:
    document, _, _ = units(heading("Retention of records"), paragraph("x"))
    chunks, found = parts()
    made = chunk_contexts(document, chunks, found, 250)
    assert [context.chunk_id for context in made] == [chunk.chunk_id for chunk in chunks]
    assert made[0].text == "A Title › Retention of records"
    assert made[1].text.endswith(": Records of contracts are kept for seven years after the contract ends.")
    assert all(len(context.text) <= 250 for context in made)


def test_code_is_no_summary_and_no_key_sentence() -> None:
    code = Block("code", (TextRun("records = contracts.kept(years=seven, until=ends)"),))
    blocks = [heading("One"), paragraph("Records of contracts are kept."), code, heading("Two"), paragraph(LONG)]
    document, _, _ = units(*blocks)
    chunks, found, _ = skeleton(*blocks)
    assert "code" in {sentence.source for sentence in found if sentence.chunk_id == chunks[0].chunk_id}
    assert chunk_contexts(document, chunks, found, 250)[1].text == "A Title › Two: Records of contracts are kept."
    assert "records =" not in document_summary("d", found, [chunk.chunk_id for chunk in chunks], 250, 10).text


def test_embedded_text_says_an_inline_heading_once() -> None:
    chunks, _ = parts()
    text = embedded_text(chunks[0], "A summary.", "A context.")
    assert text.count("Retention of records") == 1
    assert text.index("A summary.") < text.index("seven years") < text.index("A context.")
    assert embedded_text(chunks[-1], "", "").startswith("Destruction of records\n")


def test_windows_are_even_and_cover() -> None:
    assert windows(10, 4) == [(0, 3), (3, 6), (6, 10)] and windows(0, 4) == [(0, 0)]


def test_averaged_windows_weigh_by_tokens() -> None:
    vectors = np.array([[1, 0], [0, 1], [0, 1]], dtype=np.float32)
    made = average_windows(vectors, [0, 0, 1], [3, 4, 9], 2)
    assert np.allclose(made, np.array([[0.6, 0.8], [0, 1]]))


def test_clipped() -> None:
    assert clip("short", 10) == "short" and clip("two words here", 9) == "two…"
