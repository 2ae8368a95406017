"""Judge the reranker by sets that it was not trained on, and measure how long it takes.

    python benchmarks/reranker/judge.py --data DIR --scores FILE.npz ... [--json FILE]
    python benchmarks/reranker/judge.py --data DIR --weights FILE.npz --layers 4

The first form prints, of every set, the first-rank metric and R@5 of hybrid search as shipped, of the reranker alone
over the first 20 candidates, and of its score as one more standardised measure in the weighted sum. The weight of that
sum is the one of WEIGHTS that does best on the mean of the other sets. A set is scored by the fold that left it out;
one that may not be trained on by fold C. Differences to hybrid search are paired, with 95 % intervals of a bootstrap
over questions; the mean over sets has one of a bootstrap within each set. Then: how well the greatest score of a
question tells those with an answer from a set's own unanswerable ones. The second form times 20 candidates on as many
threads as --threads says, as 32-bit numbers and with dynamic 8-bit quantisation; for AVX2, set
ATEN_CPU_CAPABILITY=avx2 and DNNL_MAX_CPU_ISA=AVX2 before. Repeats are not left out, as in benchmarks/fusion.py.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.fusion import SHIPPED, percent, standard  # noqa: E402  (the path above finds it)
from benchmarks.reranker.windows import Asked, Text, read_asked, read_texts, window  # noqa: E402
from benchmarks.support.parsing_report import table  # noqa: E402

FIRST = 20
WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0)
"""Weights of the reranker beside those of hybrid search, which are 2.6 together."""
FOLD_OF = {"policies": "A", "tatqa": "A", "sec-10-q": "A", "chunking-evaluation": "B", "contextual-code": "B"}
"""The fold that leaves a set out. Sets that are never trained on are scored by fold C, or by `all` where C has none."""
LEFT_OUT_BY_C = ("summary-augmentation", "library")
MULTILINGUAL = ("library", "unlp-medicine")
"""Sets whose index is made with the multilingual preset, and which the multilingual model reorders."""
MODELS = {"4 layers": ("en4", "ml4"), "6 layers": ("en6", "ml4"), "6 layers, real questions": ("en6real", "ml4")}
ROUNDS = 2_000
GAIN = 0.03
"""Gain of the first-rank metric, as a mean over sets, from which on the reranker ships."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """A question with the reranker's scores of its first candidates."""

    asked: Asked
    scores: Floats

    @cached_property
    def shipped(self) -> Floats:
        """Return the weighted sum of hybrid search."""
        return np.sum(
            [own * np.array(standard(list(values_of(self.asked, name)))) for name, own in SHIPPED.items()], axis=0
        )

    @cached_property
    def gained(self) -> dict[float | None, float]:
        """Return the difference to hybrid search in the first-rank metric, by weight; None is the reranker alone."""
        before = first_rank(self.asked, self.order(0.0))
        return {weight: first_rank(self.asked, self.order(weight)) - before for weight in (None, *WEIGHTS)}

    def order(self, weight: float | None) -> list[int]:
        """Return the candidates by the weighted sum; by the reranker alone if `weight` is None."""
        first, total = len(self.scores), self.scores
        if weight is not None:
            total = self.shipped[:first] + weight * np.array(standard(self.scores.tolist()))
        return [*sorted(range(first), key=lambda at: -total[at]), *range(first, len(self.asked.candidates))]


def values_of(one: Asked, name: str) -> Sequence[float]:
    """Return a measure of the candidates; 0 of each where the question gave it nothing to measure."""
    short = {"nearest_sentence": "near", "document": "doc"}
    return one.values.get(name) or one.values.get(short.get(name, "")) or [0.0] * len(one.candidates)


def first_rank(one: Asked, order: Sequence[int]) -> float:
    """Return 1 if the first candidate answers; for contextual-code, whose authors report it, the share of gold places
    that the first five hold."""
    if one.corpus == "contextual-code":
        best = set(order[:5])
        return float(np.mean([bool(best & set(place)) for place in one.places]))
    return float(order[0] in one.gold)


def in_five(one: Asked, order: Sequence[int]) -> float:
    return float(bool(set(order[:5]) & one.gold))


def judged(found: Sequence[Asked], scores: NDArray[np.float32]) -> list[Judged]:
    """Return questions with their scores, which lie one after the other."""
    lengths = [min(FIRST, len(one.candidates)) for one in found]
    if sum(lengths) != len(scores):
        raise ValueError(f"{sum(lengths)} candidates, but {len(scores)} scores")
    parts = np.split(scores.astype(np.float64), np.cumsum(lengths)[:-1])
    return [Judged(one, own) for one, own in zip(found, parts, strict=True)]


def gains(questions: Sequence[Judged], weight: float | None) -> Floats:
    """Return the difference to hybrid search of each question that has an answer, in the first-rank metric."""
    return np.array([one.gained[weight] for one in questions if one.asked.answerable])


def pair(questions: Sequence[Judged], weight: float | None) -> str:
    """Return the first-rank metric and R@5 in percent."""
    own = [(first_rank(one.asked, order), in_five(one.asked, order))
           for one in questions if one.asked.answerable for order in [one.order(weight)]]  # fmt: skip
    return " / ".join(percent(float(value)) for value in np.mean(own, axis=0))


def interval(samples: Sequence[Floats], seed: int = 0) -> tuple[float, float, float]:
    """Return the mean over sets of the mean of each, and its 95 % interval."""
    chance = np.random.default_rng(seed)
    drawn = [own[chance.integers(0, len(own), (ROUNDS, len(own)))].mean(axis=1) for own in samples]
    low, high = np.percentile(np.mean(drawn, axis=0), [2.5, 97.5])
    return float(np.mean([own.mean() for own in samples])), float(low), float(high)


def told(samples: Sequence[Floats]) -> str:
    mean, low, high = interval(samples)
    return f"{100 * mean:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def chosen(sets: Mapping[str, Sequence[Judged]], left_out: str) -> float:
    """Return the weight that gains most on the mean of the other sets; of equals the smaller."""
    by_weight = {weight: np.mean([gains(own, weight).mean() for name, own in sets.items() if name != left_out])
                 for weight in WEIGHTS}  # fmt: skip
    return max(WEIGHTS, key=lambda weight: (round(float(by_weight[weight]), 6), -weight))


def judgement(sets: Mapping[str, Sequence[Judged]]) -> tuple[list[str], bool]:
    """Return the table of a model, and whether it passes what the metrics of the gate ask."""
    rows, alone, summed = [], [], []
    for name, own in sets.items():
        weight = chosen(sets, name)
        alone.append(gains(own, None))
        summed.append(gains(own, weight))
        best = max(WEIGHTS, key=lambda each: (round(float(gains(own, each).mean()), 6), -each))
        rows.append([name, str(len(alone[-1])), pair(own, 0.0), pair(own, None), told(alone[-1:]),
                     f"{weight:g}", pair(own, weight), told(summed[-1:]),
                     f"{best:g}: {100 * gains(own, best).mean():+.1f}"])  # fmt: skip
    rows.append(["mean", "", "", "", told(alone), "", "", told(summed), ""])
    heads = ("questions", "hybrid", "reranker alone", "its gain", "weight", "in the sum", "its gain", "best on itself")
    passes = interval(summed)[0] >= GAIN and all(interval([own])[2] >= 0 for own in summed)
    return table(("first-rank / R@5", *heads), rows), passes


def by_weight(sets: Mapping[str, Sequence[Judged]]) -> list[str]:
    """Return the gain of each set at each weight."""
    rows = [
        [name, *(f"{100 * gains(own, weight).mean():+.1f}" for weight in WEIGHTS[1:])] for name, own in sets.items()
    ]
    means = [np.mean([gains(own, weight).mean() for own in sets.values()]) for weight in WEIGHTS[1:]]
    return table(
        ("gain, by weight", *map(str, WEIGHTS[1:])), [*rows, ["mean", *(f"{100 * one:+.1f}" for one in means)]]
    )


def area(answered: Sequence[float], unanswerable: Sequence[float]) -> float:
    """Return the share of pairs in which the question with an answer has the greater value; equal ones count half."""
    left, right = np.array(answered)[:, None], np.array(unanswerable)[None, :]
    return float((left > right).mean() + 0.5 * (left == right).mean())


def evidence(sets: Mapping[str, Sequence[Judged]]) -> list[str]:
    """Return, of sets with unanswerable questions, the area under the curve by the greatest score, and how many of
    these are declined at the threshold that keeps 95 % of those whose answer is among the first candidates."""
    rows = []
    for name, own in sets.items():
        no = [float(one.scores.max()) for one in own if not one.asked.answerable]
        yes = [float(one.scores.max()) for one in own if any(at < FIRST for at in one.asked.gold)]
        if no:
            least = float(np.quantile(yes, 0.05))
            declined = percent(float(np.mean(np.array(no) < least)))
            rows.append([name, str(len(yes)), str(len(no)), f"{area(yes, no):.3f}", declined])
    return table(("set", "answered", "unanswerable", "area", "declined where 95 % are kept"), rows)


def loaded(data: Path, files: Sequence[Path]) -> dict[str, dict[str, list[Judged]]]:
    """Return {model: {set: questions}} of all sets that were scored by the fold that left them out."""
    scores = {name: own for file in files for name, own in np.load(file).items()}
    found: dict[str, dict[str, list[Judged]]] = {}
    for file in sorted(data.glob("*.asked.xz")):
        name = file.name.split(".")[0]
        asked = read_asked(file)
        for model, kinds in MODELS.items():
            folds = [FOLD_OF[name]] if name in FOLD_OF else ["C"] if name in LEFT_OUT_BY_C else ["C", "all"]
            keys = [f"{kinds[name in MULTILINGUAL]}-{fold}|{name}" for fold in folds]
            known = [scores[key] for key in keys if key in scores]
            if known:
                found.setdefault(model, {})[name] = judged(asked, known[0])
    return found


def milliseconds(data: Path, weights: Path, layers: int, threads: int, count: int = 15) -> dict[str, list[float]]:
    """Return how long 20 candidates take, of one question after the other, by numeric type; on one thread in its
    processor time, which others that use the same cores change less."""
    import torch

    from benchmarks.reranker.train import started

    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    model, tokens = started(weights, layers)
    model.eval()
    small = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    found: dict[str, list[float]] = {"float32": [], "int8": []}
    for one, texts in questions_of(data, count):
        pairs = [(one.question, window(texts[at].headings, texts[at].sentences, near))
                 for at, near in list(zip(one.candidates, one.near, strict=True))[:FIRST]]  # fmt: skip
        tokens.learn([text for each in pairs for text in each])
        for kind, own in (("float32", model), ("int8", small)):
            began = clock()
            with torch.inference_mode():
                own(*tokens.batch(pairs, "cpu"))
            found[kind].append(1000 * (clock() - began))
    return found


def questions_of(data: Path, count: int) -> list[tuple[Asked, list[Text]]]:
    """Return some questions of policies with its texts."""
    texts = read_texts(data / "policies.texts.xz")
    return [(one, texts) for one in read_asked(data / "policies.asked.xz")[:count]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--scores", type=Path, nargs="+", default=[], metavar="FILE.npz")
    parser.add_argument("--weights", type=Path, metavar="FILE.npz")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.weights:
        for kind, own in milliseconds(options.data, options.weights, options.layers, options.threads).items():
            print(f"{kind}: median {np.median(own):.0f} ms, least {min(own):.0f} ms")
    verdicts = {}
    for model, sets in loaded(options.data, options.scores).items():
        lines, verdicts[model] = judgement(sets)
        print(f"{model}: {'passes' if verdicts[model] else 'does not pass'}\n")
        for block in (lines, by_weight(sets), evidence(sets)):
            print("\n".join(block), end="\n\n")
    if options.json:
        options.json.write_text(json.dumps(verdicts, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
