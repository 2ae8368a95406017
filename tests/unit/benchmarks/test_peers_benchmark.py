"""What benchmarks/peers.py reads of the systems' scripts, what it counts, and the page it writes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.peers import CACHE, ISAS, Cases, chosen, require_cases
from benchmarks.support import peers_systems
from benchmarks.support.peers_bench import Bench, Failed
from benchmarks.support.peers_figures import (
    Figures,
    Texts,
    beside,
    embedded_in,
    hit_shares,
    normal,
    replaced,
    result_in,
)
from benchmarks.support.peers_files import ADDED, Corpus, corpus, questions_of, write_modified
from benchmarks.support.peers_page import SMALL_DELETED, SMALL_MODIFIED, page, picture
from benchmarks.support.peers_systems import SCRIPTS, SYSTEMS, System
from pipelines.plots import LEFT

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = ROOT / "tests" / "data" / "library" / "policies"
FILES = Corpus([Path("docs/long.pdf"), Path("docs/short.pdf")], {"long.pdf": 9, "short.pdf": 2})


def test_the_result_is_the_last_line_whatever_a_library_prints_before_it() -> None:
    assert result_in('loading\n{"no": 1}\n\n{"seconds": 2.5}\n\n') == {"seconds": 2.5}
    with pytest.raises(ValueError):
        result_in("\n")
    with pytest.raises(ValueError):
        result_in("done\n")


def test_embedded_texts_are_counted_and_what_the_model_cuts_of_them(tmp_path: Path) -> None:
    log = tmp_path / "embedded.jsonl"
    told = [{"limit": 5, "dtype": "float32", "texts": ["123456", "12345", "1"]},
            {"limit": None, "dtype": "float32", "texts": ["12345678"]}]  # fmt: skip
    log.write_text("".join(json.dumps(each) + "\n" for each in told) + '{"limit": 5, "dty')
    assert embedded_in(log, lambda texts: [len(text) for text in texts]) == Texts(4, 1, 20, 1, frozenset({"float32"}))
    assert embedded_in(log).count == 4
    assert embedded_in(tmp_path / "none.jsonl") == Texts()


def test_rows_are_compared_as_often_as_they_stand() -> None:
    truth = normal([("docs/a.pdf", "one"), ("docs/a.pdf", "two"), ("b.pdf", "three")])
    assert beside(truth, truth) == (0, 0)
    assert beside([*truth, *truth], truth) == (3, 0)
    assert beside([("a.pdf", "one"), ("a.pdf", "old")], truth) == (1, 2)
    assert beside(truth, replaced(truth, "a.pdf", [("a.pdf", "one"), ("a.pdf", "new")])) == (1, 1)


def test_a_hit_is_a_passage_that_touches_a_page_that_counts() -> None:
    gold = [("a.pdf", 3, 4)]
    asked: dict[str, list[list[Any]]] = {
        "first": [["docs/a.pdf", 4, 4]],
        "long": [["a.pdf", 1, 3]],
        "fifth": [["a.pdf", 5, 6]] * 4 + [["a.pdf", 4, 9]],
        "another file": [["b.pdf", 3, 3]],
        "no page": [["a.pdf", None, None]],
        "nothing": [],
    }
    assert hit_shares(list(asked.values()), [gold] * 6) == {1: 2 / 6, 5: 3 / 6, 10: 3 / 6}
    assert hit_shares([], []) == {}


def test_questions_are_those_whose_pages_are_in_the_files(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    lines = [
        {"question": "cited?", "truth": "It is.[a.pdf#page=3][b.pdf#page=1]"},
        {"question": "golden?", "gold": [{"uri": "sub/a.pdf", "page": 2}, {"uri": "a.pdf", "page": 5, "page_end": 7}]},
        {"question": "elsewhere?", "truth": "No.[c.pdf#page=3]"},
        {"question": "nowhere?", "truth": "No."},
    ]
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    assert questions_of(file, ["a.pdf", "b.pdf"]) == [
        ("cited?", [("a.pdf", 3, 4), ("b.pdf", 1, 2)]),
        ("golden?", [("a.pdf", 2, 2), ("a.pdf", 5, 7)]),
    ]


def test_the_modified_copy_says_one_sentence_more_on_one_page(tmp_path: Path) -> None:
    import pypdfium2

    files = corpus(LIBRARY)
    assert files.modified != files.deleted
    before = files.files[0].read_bytes()
    write_modified(files.files[0], tmp_path / "copy.pdf")
    texts = []
    for file in (files.files[0], tmp_path / "copy.pdf"):
        with pypdfium2.PdfDocument(file) as document:
            texts.append([found.get_textpage().get_text_range() for found in document])
    differing = [at for at, (old, new) in enumerate(zip(*texts, strict=True)) if old != new]
    assert differing == [len(texts[0]) // 2]
    assert ADDED in texts[1][differing[0]] and ADDED not in texts[0][differing[0]]
    assert files.files[0].read_bytes() == before


def test_a_folder_of_one_pdf_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has 0 PDFs"):
        corpus(tmp_path)


TOLD = {"date": "2026-11-24", "commit": "abc", "command": "make peers ROUNDS=3", "processor": "two cores"}


def figures() -> Figures:
    found = Figures(
        about={"settings": "as it is", "versions": {"lib": "1.2"}},
        cold=Texts(40, 3, 1000, 25, frozenset({"float32"})), rows=40, peak=900_000_000, hits={1: 0.5, 5: 0.75, 10: 1.0},
    )  # fmt: skip
    for seconds, texts, wrong in ((30.0, 7, (5, 1)), (10.0, 9, (5, 2)), (20.0, 8, (5, 3))):
        for case in ("cold", "modified"):
            found.add(case, seconds, texts)
        found.wrong.setdefault("modified", []).append(wrong)
    return found


def test_the_page_shows_the_median_and_both_ends_of_counts_that_differ() -> None:
    text = page(
        {"One": figures(), "One, dense": Figures(hits={1: 0.25, 5: 0.5, 10: 0.5}),
         "Other": Figures(about={"settings": "none"}, failed={"cold": "it `fell`"})},
        FILES, 4, 3, TOLD, "peers.svg",
    )  # fmt: skip
    assert "| One | 20.0 | 900 | 40 | 40 | 3 | 2.5 | - | - |" in text
    assert "| One | 20.0 | 7 to 9 | 5 | 1 to 3 | - | - | - |" in text
    assert "| One, dense | 25.0 | 50.0 | 50.0 |" in text and "| One, dense | -" not in text
    assert "| Other | - | - | - | - | - | - | - | - |" in text and "- Other, cold: `it 'fell'`" in text
    assert "Measured: 2026-11-24 · commit abc · `make peers ROUNDS=3`" in text and "- processor: two cores" in text
    assert "lib 1.2" in text and "long.pdf (9 pages)" in text and "median of 3 rounds" in text


def test_vectors_stand_beside_vectors_and_hybrid_beside_hybrid() -> None:
    found = {name: Figures(hits={1: share, 5: share, 10: share}) for name, share in {
        "pincite, float32": 0.8, "pincite, float32, dense search": 0.6, "Other": 0.5, "Other, hybrid": 0.7,
    }.items()}  # fmt: skip
    text = page(found, FILES, 4, 1, TOLD, "peers.svg")
    vectors, _, hybrid = text.partition("By vectors:")[2].partition("By words and vectors")
    names = [re.findall(r"^\| ([^|]+) \| \d", part, re.MULTILINE) for part in (vectors, hybrid)]
    assert names == [["pincite, float32, dense search", "Other"], ["pincite, float32", "Other, hybrid"]]


def test_a_case_that_there_is_not_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.peers.write_modified", lambda file, target: target.write_text("changed"))
    cases = Cases(FILES, [], tmp_path)
    assert list(cases.each(["cold"])) == ["cold"] and len(cases.each()) == 6
    with pytest.raises(SystemExit, match="killed late"):
        require_cases(cases, ["cold", "kiled"])


def test_the_smallest_of_several_files_has_a_table_of_its_own(tmp_path: Path) -> None:
    three = Corpus([*FILES.files, Path("docs/least.pdf")], {**FILES.pages, "least.pdf": 1})
    assert (FILES.small, three.small) == (None, "least.pdf")
    found = figures()
    found.add(SMALL_MODIFIED, 2.5, 1)
    found.add(SMALL_DELETED, 1.25, 0)
    text = page({"One": found}, three, 0, 3, TOLD, "peers.svg")
    assert "| One | 2.50 | 1 | - | - | 1.25 | 0 | - |" in text and "least.pdf (1 pages)" in text
    assert "small" not in page({"One": found}, FILES, 0, 3, TOLD, "peers.svg")


def test_the_small_file_is_changed_after_the_others_and_its_rows_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.peers.write_modified", lambda file, target: target.write_text("changed"))
    cases = Cases(
        Corpus([Path("a.pdf"), Path("b.pdf"), Path("c.pdf")], {"a.pdf": 3, "b.pdf": 2, "c.pdf": 1}), (), tmp_path
    )
    assert list(cases.each())[3:6] == ["deleted", SMALL_MODIFIED, SMALL_DELETED]
    cases.truth["Toy"] = [("a.pdf", "a"), ("b.pdf", "b"), ("c.pdf", "c")]
    cases.alone["Toy"] = [("a.pdf", "new a"), ("c.pdf", "new c")]
    rows = [("a.pdf", "new a"), ("c.pdf", "new c"), ("c.pdf", "c")]
    documents = tmp_path / "documents"
    documents.mkdir()
    bench: Any = SimpleNamespace(
        system=SimpleNamespace(name="Toy"), figures=Figures(), documents=documents, index=lambda case: None,
        rows=lambda: rows,
    )  # fmt: skip
    cases.change_small(bench)
    assert bench.figures.wrong == {SMALL_MODIFIED: [(1, 0)]}, "the old row is one too many"
    cases.delete_small(bench)
    assert bench.figures.wrong[SMALL_DELETED] == [(2, 0)] and not (documents / "c.pdf").exists()


def test_the_picture_has_a_point_for_each_system_that_was_asked() -> None:
    slow, quick = figures(), figures()
    slow.seconds, quick.seconds = {"cold": [100.0]}, {"cold": [10.0]}
    root = ET.fromstring(picture({"slow & sure": slow, "quick": quick, "unasked": Figures()}))
    names = [each.text for each in root.iter() if each.tag.endswith("text")]
    assert names.count("slow & sure") == names.count("quick") == 1 and "unasked" not in names
    far, near = (float(each.attrib["cx"]) - LEFT for each in root.iter() if each.tag.endswith("circle"))
    assert far == pytest.approx(10 * near, rel=0.01)
    assert picture({"unasked": Figures()}) == ""


def test_names_of_systems_stand_apart_and_within_the_picture() -> None:
    names = [each.name for each in SYSTEMS]
    root = ET.fromstring(picture(dict.fromkeys(names, figures())))
    found = {
        each.text: (float(each.attrib["x"]), float(each.attrib["y"])) for each in root.iter() if each.text in names
    }
    ends = {name: x + 6 * len(str(name)) for name, (x, _) in found.items()}
    assert len(found) == len(names) and max(ends.values()) < float(root.attrib["width"])
    assert all(found[one][1] != found[other][1] or ends[one] < found[other][0] for one, other in pairwise(names))


def test_systems_are_named_by_their_beginnings() -> None:
    assert [each.name for each in chosen(["langchain, f", "Haystack"])] == ["Haystack", "LangChain, full"]
    assert chosen([]) == [*SYSTEMS]
    with pytest.raises(SystemExit, match="no system begins with 'ragflow'"):
        chosen(["haystack", "ragflow"])


def test_documents_are_copied_where_every_system_reads_them() -> None:
    assert not any(part.startswith(".") for part in CACHE.relative_to(ROOT).parts)


def test_every_system_has_a_script_and_what_is_installed_for_it_is_pinned() -> None:
    assert len({each.key for each in SYSTEMS}) == len(SYSTEMS)
    for each in SYSTEMS:
        assert each.script.is_file()
    pins = {file: file.read_text().split() for file in SCRIPTS.glob("*/requirements.txt")}
    assert len(pins) == 4
    for file, lines in pins.items():
        assert "torch==2.13.0" in lines and "sentence-transformers==6.2.0" in lines, file
        assert all(line.count("==") == 1 and not line.lower().startswith("nvidia") for line in lines), file


SCRIPT = """
import json, os, sys
if sys.argv[1] == "index":
    sys.exit(f"cannot read {os.environ['PEER_STATE']}/../documents/a.pdf")
print("a library says hello")
print(json.dumps({"asked": sys.argv[1:], "told": dict(os.environ)}))
"""


def test_a_script_is_told_what_it_needs_and_its_last_words_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers_systems, "SCRIPTS", tmp_path)
    monkeypatch.setenv("SECRET_KEY", "x")
    for name, value in ISAS["avx2"].items():
        monkeypatch.setenv(name, value)
    (tmp_path / "toy").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "toy" / "peer.py").write_text(SCRIPT)
    server: Any = SimpleNamespace(url="postgresql://pincite@/postgres?host=/sockets&requirepeer=postgres")
    bench = Bench(System("Toy", "toy", "quick"), Path(sys.executable), tmp_path / "work", server)
    seconds, found = bench.script("query", "questions.json", variant="slow", kill=3)
    told = found["told"]
    assert found["asked"] == ["query", "questions.json"] and seconds > 0 and "SECRET_KEY" not in told
    assert (told["PGHOST"], told["PGDATABASE"]) == ("/sockets", "toy_quick")
    assert (told["PEER_VARIANT"], told["PEER_KILL"]) == ("slow", "3")
    assert told.items() >= ISAS["avx2"].items()
    with pytest.raises(Failed, match=r"^index exited with 1: cannot read work/state/../documents/a.pdf$"):
        bench.script("index", "documents")


COUNTED = """
import sys
sys.path[:0] = [{peers!r}, {modules!r}]
import common
common.after_import("sentence_transformers", common.watch_sentence_transformers)
from sentence_transformers import SentenceTransformer
model = SentenceTransformer()
for texts in (["a", "b"], "c", ["d", "e", "f"], ["g"]):
    model.encode(texts)
    print("encoded", flush=True)
"""
MODEL = """
class Weights: dtype = "torch.float32"
class SentenceTransformer:
    max_seq_length = 256
    def parameters(self): return iter([Weights])
    def encode(self, texts): return texts
"""


@pytest.mark.parametrize(("kill", "count", "calls"), [(0, 7, 4), (3, 3, 2)])
def test_a_script_tells_what_it_embeds_and_kills_itself_before_it_would_go_beyond(
    tmp_path: Path, kill: int, count: int, calls: int
) -> None:
    (tmp_path / "sentence_transformers.py").write_text(MODEL)
    log = tmp_path / "embedded.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", COUNTED.format(peers=str(SCRIPTS), modules=str(tmp_path))],
        env={"PEER_EMBEDDED": str(log), "PEER_KILL": str(kill)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == (-9 if kill else 0), done.stderr
    assert embedded_in(log).count == count and done.stdout.count("encoded") == calls
