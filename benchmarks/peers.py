"""pincite beside CocoIndex, Haystack, LangChain and LlamaIndex: the same PDFs, model and Postgres.

    python benchmarks/peers.py [--source FOLDER] [--questions FILE] [--rounds N] [--systems NAME ...] [--cases CASE ...]
                               [--output FILE] [--isa avx2]

Each system is the script and the settings of benchmarks/peers/NAME, taken from its own documentation, in an environment
of its own that is made at first need (about 1 GB each, in build/peers). Every round indexes a copy of the PDFs of a
folder (the shared policies) from nothing, again with nothing changed, with one file modified, with one deleted, and
with the smallest modified and deleted; then from nothing, killed when half of the texts are embedded, and once more to
the end; then killed as soon as all rows are in, and once more. All systems go through a case before the next begins,
each round from another one on. The first round also asks the questions; `--cases cold` does no more than that. With all
systems and cases on all policies the page is docs/measured/peers.md, else build/peers/peers.md, where nothing else is
said; it is written after each case, so that an interrupted command leaves what it measured. With --isa all systems use
the instructions of an ordinary processor only, and the page is build/peers/peers.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.support.machine import circumstances, commit  # noqa: E402  (the path above finds it)
from benchmarks.support.peers_bench import MODEL, Bench, Failed  # noqa: E402
from benchmarks.support.peers_figures import Figures, Row, beside, embedded_in, hit_shares, replaced  # noqa: E402
from benchmarks.support.peers_files import Corpus, corpus, questions_of, write_modified  # noqa: E402
from benchmarks.support.peers_page import SMALL_DELETED, SMALL_MODIFIED, page, picture  # noqa: E402
from benchmarks.support.peers_systems import SYSTEMS, System, python_of  # noqa: E402
from resources.postgres.server import PostgresServer  # noqa: E402

POLICIES = ROOT.parent / "shared" / "data" / "policies"
CACHE = ROOT / "build" / "peers"
"""Not a hidden folder: LlamaIndex reads no file that has one above it."""
PAGE = ROOT / "docs" / "measured" / "peers.md"
ISAS = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "DNNL_MAX_CPU_ISA": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    }
}
"""Variables that limit torch, oneDNN, OpenVINO and NumPy's OpenBLAS to the instructions of an ordinary processor."""


class Cases:
    """What is done with a bench, in this order in every round."""

    def __init__(self, found: Corpus, questions: Sequence[tuple[str, Any]], work: Path) -> None:
        self.corpus, self.questions = found, questions
        self.modified = work / found.modified
        write_modified(found.files[0], self.modified)
        self.small = work / found.small if found.small else None
        if self.small:
            write_modified(found.files[-1], self.small)
        self.asked = work / "questions.json"
        self.asked.write_text(json.dumps([question for question, _ in questions]), encoding="utf-8")
        self.truth: dict[str, list[Row]] = {}
        self.alone: dict[str, list[Row]] = {}

    def each(self, only: Sequence[str] = ()) -> dict[str, Callable[[Bench], None]]:
        return {name: do for name, do in self._all().items() if name in only or not only}

    def _all(self) -> dict[str, Callable[[Bench], None]]:
        small = {SMALL_MODIFIED: self.change_small, SMALL_DELETED: self.delete_small} if self.small else {}
        return {"cold": self.cold, "unchanged": self.unchanged, "modified": self.change, "deleted": self.delete,
                **small, "killed": self.kill, "killed late": self.kill_late}  # fmt: skip

    def cold(self, bench: Bench) -> None:
        name, figures = bench.system.name, bench.figures
        if not figures.about:
            _, figures.about = bench.script("about")
            bench.wipe([self.modified, *([self.small] if self.small else [])])
            bench.script("index", str(bench.documents))
            self.alone[name] = bench.rows()
        bench.wipe(self.corpus.files)
        bench.index("cold")
        if name not in self.truth:
            figures.cold = embedded_in(bench.log, token_counts)
            self.truth[name] = bench.rows()
            figures.rows = len(self.truth[name])
            figures.hits = self._hits(bench)

    def _hits(self, bench: Bench, variant: str | None = None) -> dict[int, float]:
        if not self.questions:
            return {}
        _, found = bench.script("query", str(self.asked), variant=variant)
        return hit_shares(found, [gold for _, gold in self.questions])

    def also(self, bench: Bench) -> dict[str, Figures]:
        """What variants of asking find, where a cold index stands."""
        return {name: Figures(hits=self._hits(bench, variant)) for name, variant in bench.system.also}

    def unchanged(self, bench: Bench) -> None:
        bench.index("unchanged")
        self._compare(bench, "unchanged", self.truth[bench.system.name])

    def change(self, bench: Bench) -> None:
        shutil.copyfile(self.modified, bench.documents / self.corpus.modified)
        bench.index("modified")
        self._compare(bench, "modified", self._after_change(bench))

    def delete(self, bench: Bench) -> None:
        self._delete(bench, "deleted", self.corpus.deleted)

    def _delete(self, bench: Bench, case: str, name: str) -> None:
        (bench.documents / name).unlink()
        bench.index(case)
        left = [row for row in bench.rows() if row[0] == name]
        bench.figures.wrong.setdefault(case, []).append((len(left), 0))

    def change_small(self, bench: Bench) -> None:
        assert self.small
        shutil.copyfile(self.small, bench.documents / self.small.name)
        bench.index(SMALL_MODIFIED)
        truth = replaced(self._after_change(bench), self.corpus.deleted, [])
        self._compare(bench, SMALL_MODIFIED, replaced(truth, self.small.name, self._alone(bench, self.small.name)))

    def delete_small(self, bench: Bench) -> None:
        assert self.small
        self._delete(bench, SMALL_DELETED, self.small.name)

    def kill(self, bench: Bench) -> None:
        self._killed(bench, "killed", kill=bench.figures.cold.count // 2)

    def kill_late(self, bench: Bench) -> None:
        self._killed(bench, "killed late", watch=bench.kill_when_rows_are_in)

    def _killed(self, bench: Bench, case: str, **how: Any) -> None:
        bench.wipe(self.corpus.files)
        _, result = bench.script("index", str(bench.documents), **how)
        if result is not None:
            raise Failed("was over before it could be killed")
        bench.index(case)
        self._compare(bench, case, self.truth[bench.system.name])

    def _after_change(self, bench: Bench) -> list[Row]:
        name = self.corpus.modified
        return replaced(self.truth[bench.system.name], name, self._alone(bench, name))

    def _alone(self, bench: Bench, name: str) -> list[Row]:
        return [row for row in self.alone[bench.system.name] if row[0] == name]

    def _compare(self, bench: Bench, case: str, truth: Sequence[Row]) -> None:
        bench.figures.wrong.setdefault(case, []).append(beside(bench.rows(), truth))


def token_counts(texts: Sequence[str]) -> list[int]:
    """Tokens of each text with the special ones, as the model of all systems counts them."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return [len(encoding.ids) for encoding in tokenizer.encode_batch(list(texts))]


def measured(
    benches: Sequence[Bench], cases: Cases, rounds: int, only: Sequence[str] = ()
) -> Iterator[dict[str, Figures]]:
    """All cases by turns, the figures so far after each; a system that fails in one is left out of what comes after it
    in the round."""
    also: dict[str, dict[str, Figures]] = {}
    for number in range(rounds):
        first = number * max(1, len(benches) // rounds) % len(benches)
        out: set[str] = set()
        for case, do in cases.each(only).items():
            for bench in (*benches[first:], *benches[:first]):
                name = bench.system.name
                if name in out:
                    continue
                try:
                    do(bench)
                    if case == "cold" and name not in also:
                        also[name] = cases.also(bench)
                except Failed as failed:
                    out.add(name)
                    bench.figures.failed[case] = str(failed)
                    print(f"{name}, {case}: {failed}", file=sys.stderr, flush=True)
                else:
                    say(number + 1, case, bench)
            parts = ({bench.system.name: bench.figures} | also.get(bench.system.name, {}) for bench in benches)
            yield {name: each for part in parts for name, each in part.items()}


def say(number: int, case: str, bench: Bench) -> None:
    seconds, texts = bench.figures.seconds[case][-1], bench.figures.texts[case][-1]
    wrong = bench.figures.wrong.get(case, [(0, 0)])[-1]
    print(f"round {number}, {case}: {bench.system.name} {seconds:.1f} s, {texts} texts, {wrong[0]} rows too many, "
          f"{wrong[1]} missing", file=sys.stderr, flush=True)  # fmt: skip


def require_cases(cases: Cases, names: Sequence[str]) -> None:
    """Raises SystemExit for a name of none."""
    if unknown := set(names) - cases.each().keys():
        raise SystemExit(f"no case is called {', '.join(sorted(unknown))}; there are: {', '.join(cases.each())}")


def chosen(names: Sequence[str]) -> list[System]:
    """Those whose name begins with one of these; all where there are none. Raises SystemExit for a name of none."""
    for name in names:
        if not any(each.name.lower().startswith(name.lower()) for each in SYSTEMS):
            raise SystemExit(f"no system begins with {name!r}; there are: {'; '.join(each.name for each in SYSTEMS)}")
    return [each for each in SYSTEMS if not names or each.name.lower().startswith(tuple(map(str.lower, names)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=POLICIES)
    parser.add_argument("--questions", type=Path, help="JSON lines; questions.jsonl of the folder if it is there.")
    parser.add_argument("--rounds", type=int, default=1, help="The median of the seconds counts.")
    parser.add_argument(
        "--systems", nargs="+", default=(), metavar="NAME", help="Beginnings of names; all if left out."
    )
    parser.add_argument(
        "--cases", nargs="+", default=(), metavar="CASE", help="cold, unchanged and so on; all if left out."
    )
    parser.add_argument("--output", type=Path, help="The page; a picture is written beside it.")
    parser.add_argument("--isa", choices=ISAS, help="The newest instructions that the systems may use.")
    given = parser.parse_args()
    os.environ.update(ISAS.get(given.isa, {}))
    systems, found = chosen(given.systems), corpus(given.source)
    file = given.questions or given.source / "questions.jsonl"
    questions = questions_of(file, list(found.pages)) if given.questions or file.exists() else []
    complete = len(systems) == len(SYSTEMS) and given.source.resolve() == POLICIES.resolve()
    complete &= not (given.isa or given.cases)
    target = given.output or (PAGE if complete else CACHE / PAGE.name)
    pythons = {system.key: python_of(system, CACHE) for system in systems}
    command = (
        f"make peers ROUNDS={given.rounds}"
        if complete
        else shlex.join(["python", "benchmarks/peers.py", *sys.argv[1:]])
    )
    started, known, work = time.monotonic(), {"commit": commit(ROOT), "command": command}, CACHE / "work"
    if given.isa:
        known["instructions"] = f"limited to {given.isa}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    cases = Cases(found, questions, work)
    require_cases(cases, given.cases)
    server = PostgresServer(CACHE / "server")
    server.acquire()
    try:
        benches = [Bench(system, pythons[system.key], work / system.key, server) for system in systems]
        for bench in benches:
            bench.folder.mkdir()
        for figures in measured(benches, cases, given.rounds, given.cases):
            told = circumstances(ROOT, time.monotonic() - started, ["english-small"]) | known
            text = page(figures, found, len(questions), given.rounds, told, target.with_suffix(".svg").name)
            target.write_text(text, encoding="utf-8")
            target.with_suffix(".svg").write_text(picture(figures), encoding="utf-8")
    finally:
        server.release()
    print(f"written: {target}")
    if any(bench.figures.failed for bench in benches):
        raise SystemExit(3)


if __name__ == "__main__":
    main()
