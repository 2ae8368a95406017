"""Real stand-ins: a tiny sentence-transformers model, an embeddings server that records, a project."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import psycopg
from psycopg import sql

HIDDEN = 32
POSITIONS = 48
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_numbers = itertools.count(1)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]

# ---------------------------------------------------------------- a model folder


def _vocabulary() -> dict[str, int]:
    """Pairs of letters, then letters, then marks: any word has pieces."""
    pairs = [first + second for first in LETTERS for second in LETTERS]
    pieces = [*SPECIAL, *".,;:!?()-'\"/%&", *LETTERS, *pairs]
    pieces += [f"##{piece}" for piece in (*LETTERS, *pairs)]
    return {piece: number for number, piece in enumerate(pieces)}


def _tensors(vocabulary: int, seed: int) -> dict[str, np.ndarray]:
    """A one-layer BERT whose output stays near its word embeddings, so that texts that share words are alike."""
    generator = np.random.default_rng(seed)

    def normal(*shape: int, scale: float = 0.02) -> np.ndarray:
        return (generator.standard_normal(shape) * scale).astype(np.float32)

    tensors = {
        "embeddings.word_embeddings.weight": normal(vocabulary, HIDDEN, scale=1.0),
        "embeddings.position_embeddings.weight": normal(POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": normal(2, HIDDEN),
    }
    layer = "encoder.layer.0"
    for name, outputs, inputs in (
        ("attention.self.query", HIDDEN, HIDDEN),
        ("attention.self.key", HIDDEN, HIDDEN),
        ("attention.self.value", HIDDEN, HIDDEN),
        ("attention.output.dense", HIDDEN, HIDDEN),
        ("intermediate.dense", 2 * HIDDEN, HIDDEN),
        ("output.dense", HIDDEN, 2 * HIDDEN),
    ):
        tensors[f"{layer}.{name}.weight"] = normal(outputs, inputs)
        tensors[f"{layer}.{name}.bias"] = np.zeros(outputs, dtype=np.float32)
    for name in ("embeddings", f"{layer}.attention.output", f"{layer}.output"):
        tensors[f"{name}.LayerNorm.weight"] = np.ones(HIDDEN, dtype=np.float32)
        tensors[f"{name}.LayerNorm.bias"] = np.zeros(HIDDEN, dtype=np.float32)
    return tensors


def _tokenizer(vocabulary: dict[str, int]) -> Any:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=200))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [("[CLS]", vocabulary["[CLS]"]), ("[SEP]", vocabulary["[SEP]"])]
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=ends
    )
    made.add_special_tokens(SPECIAL)
    return made


def make_model(folder: Path, seed: int = 7, prompts: Mapping[str, str] | None = None) -> Path:
    """A folder that sentence-transformers loads: 32 dimensions, a window of 48 tokens, safetensors."""
    from safetensors.numpy import save_file

    for part in ("1_Pooling", "2_Normalize"):
        (folder / part).mkdir(parents=True)
    vocabulary = _vocabulary()
    save_file(_tensors(len(vocabulary), seed), folder / "model.safetensors", metadata={"format": "pt"})
    _tokenizer(vocabulary).save(str(folder / "tokenizer.json"))
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    files: dict[str, Any] = {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_size": HIDDEN,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 2 * HIDDEN,
            "vocab_size": len(vocabulary),
            "max_position_embeddings": POSITIONS,
            "pad_token_id": 0,
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": POSITIONS,
            "pad_token": "[PAD]",
            "unk_token": "[UNK]",
            "cls_token": "[CLS]",
            "sep_token": "[SEP]",
        },
        "modules.json": [
            {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for number, (path, kind) in enumerate(kinds.items())
        ],
        "sentence_bert_config.json": {"max_seq_length": POSITIONS, "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True},
        "config_sentence_transformers.json": {"prompts": dict(prompts or {}), "default_prompt_name": None},
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder


# ---------------------------------------------------------------- an embeddings endpoint

Answer = Callable[[list[str]], tuple[int, dict[str, Any]]]


def hashed_vector(text: str, dimension: int) -> list[float]:
    """The sum of one random vector a word: deterministic, and texts that share words are alike."""
    total = np.zeros(dimension)
    for word in re.findall(r"\w+", text.lower()) or [""]:
        seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
        total += np.random.default_rng(seed).standard_normal(dimension)
    return [float(value) for value in total]


class EmbeddingServer:
    """An OpenAI-compatible embeddings endpoint on loopback that records the texts it is asked for."""

    def __init__(self, dimension: int = 16) -> None:
        self.dimension = dimension
        self.requests: list[list[str]] = []
        self.keys: list[str | None] = []
        self.faults: list[Answer] = []
        self.arrived, self.released = threading.Event(), threading.Event()
        self._holds: Callable[[list[str]], bool] | None = None
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def texts(self) -> list[str]:
        """Every text asked for, in order."""
        return [text for texts in self.requests for text in texts]

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def forget(self) -> None:
        self.requests.clear()

    def next(self, *faults: Answer) -> None:
        """Answers that the next requests get, one each."""
        self.faults.extend(faults)

    def hold(self, which: Callable[[list[str]], bool]) -> None:
        """The first request that fits sets `arrived` and waits for `released`."""
        self.arrived.clear()
        self.released.clear()
        self._holds = which

    def answer(self, texts: list[str], key: str | None) -> tuple[int, dict[str, Any]]:
        with self._lock:
            self.requests.append(texts)
            self.keys.append(key)
            fault = self.faults.pop(0) if self.faults else None
            held = self._holds is not None and self._holds(texts)
            if held:
                self._holds = None
        if held:
            self.arrived.set()
            self.released.wait(120)
        return fault(texts) if fault else self.good(texts)

    def good(self, texts: list[str], dimension: int | None = None) -> tuple[int, dict[str, Any]]:
        data = [
            {"object": "embedding", "index": number, "embedding": hashed_vector(text, dimension or self.dimension)}
            for number, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        return 200, {"object": "list", "model": "fake", "data": data, "usage": usage}

    # Faults, each to be given to `next`.

    def shuffled(self, texts: list[str]) -> tuple[int, dict[str, Any]]:
        status, reply = self.good(texts)
        return status, {**reply, "data": reply["data"][::-1]}

    def one_short(self, texts: list[str]) -> tuple[int, dict[str, Any]]:
        status, reply = self.good(texts)
        return status, {**reply, "data": reply["data"][:-1]}

    def other_dimension(self, texts: list[str]) -> tuple[int, dict[str, Any]]:
        return self.good(texts, self.dimension + 1)

    def uneven(self, texts: list[str]) -> tuple[int, dict[str, Any]]:
        status, reply = self.good(texts)
        reply["data"][-1]["embedding"].append(0.5)
        return status, reply

    @staticmethod
    def status(code: int) -> Answer:
        return lambda texts: (code, {"error": {"message": "no", "type": "error", "code": str(code)}})


def _handler(server: EmbeddingServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, reply = server.answer(list(body["input"]), self.headers.get("Authorization"))
            data = json.dumps(reply).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                if status != 200:
                    self.send_header("retry-after-ms", "1")
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True  # the asker was killed meanwhile

        def log_message(self, format: str, *values: Any) -> None:
            pass

    return Handler


@contextmanager
def embedding_server(dimension: int = 16) -> Iterator[EmbeddingServer]:
    server = EmbeddingServer(dimension)
    try:
        yield server
    finally:
        server.close()


# ---------------------------------------------------------------- a project on disk

DOCUMENTS = {
    "handbook.md": """\
# Staff handbook

## Leave

Staff receive twenty-eight days of annual leave. Unused leave expires at the end of March.

## Expenses

Claims above fifty pounds need a receipt. The treasurer approves travel claims within ten days.
""",
    "boilers.txt": """\
Boiler inspection

The boiler in the east wing is inspected every October. Pressure must stay below two bar.

Leaks are reported to the plumber on duty, who keeps the repair ledger.
""",
    "visitors.html": """\
<html><head><title>Visitors</title></head><body><h1>Visitors</h1>
<p>Visitors sign the register at the front desk and wear a yellow badge.</p>
<h2>Parking</h2><p>Parking permits are issued by the porter for one day.</p></body></html>
""",
    "suppliers.csv": "supplier,city,contract\nNorthern Paper,Leeds,2026\nHarbour Catering,Hull,2027\n",
    "archive/retention.txt": """\
Retention of records

Personnel files are kept for seven years. Minutes of the council are kept for ever.
""",
    "archive/keys.md": """\
# Keys

The vault key is held by the registrar. A spare key lies in the sealed envelope of the bursar.
""",
}


@dataclass
class Ran:
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out)
        return value


def run_command(*arguments: str | Path) -> Ran:
    """The `pincite` command in this process: arguments, output and exit code as a shell has them."""
    from pincite.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    argv = ["pincite", *map(str, arguments)]
    patched = mock.patch.object(sys, "argv", argv), mock.patch.dict(os.environ)
    with patched[0], patched[1], redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Ran(code, out.getvalue(), err.getvalue())


@dataclass
class Project:
    """A folder with documents, settings and a state, as a user has it."""

    folder: Path
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def docs(self) -> Path:
        return self.folder / "docs"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def config(self) -> Path:
        return self.folder / "pincite.yaml"

    def configure(self, **settings: Any) -> None:
        """Settings replaced by key; JSON is YAML."""
        self.settings.update(settings)
        self.config.write_text(json.dumps(self.settings), encoding="utf-8")

    def write(self, uri: str, text: str | bytes, docs: Path | None = None) -> Path:
        path = (docs or self.docs) / uri
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def run(self, command: str, *arguments: str | Path) -> Ran:
        """A command of this project, with --json."""
        return run_command(*command.split(), *arguments, "--config", self.config, "--json")

    def index(self, *arguments: str | Path, code: int = 0) -> dict[str, Any]:
        ran = self.run("index", *arguments)
        assert ran.code == code, ran.out + ran.err
        return ran.json

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """What the project's database answers."""
        with psycopg.connect(self.settings["database"]) as connection:
            cursor = connection.execute(statement, values)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def hits(self, text: str, *arguments: str) -> list[dict[str, Any]]:
        ran = self.run("query", text, *arguments)
        assert ran.code == 0, ran.out + ran.err
        hits: list[dict[str, Any]] = ran.json["hits"]
        return hits


def make_project(folder: Path, documents: Mapping[str, str] | None = None, **settings: Any) -> Project:
    """Documents under docs/, and settings: few buckets, one parser process, that source."""
    folder.mkdir(parents=True, exist_ok=True)
    project = Project(folder)
    for uri, text in (DOCUMENTS if documents is None else documents).items():
        project.write(uri, text)
    base = {"state": "state", "buckets": 4, "parsing": {"workers": 1}, "sources": [{"name": "docs", "path": "docs"}]}
    project.configure(**{**base, **settings})
    return project


@contextmanager
def running_server(state: Path) -> Iterator[str]:
    """The address of an embedded server of its own, without care for power cuts."""
    from resources.postgres_server import PostgresServer

    server = PostgresServer(state)
    url = server.acquire()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    try:
        yield url
    finally:
        server.release()


@contextmanager
def new_database(server_url: str, template: str = "template1") -> Iterator[str]:
    """The address of a database made from another one, dropped at the end."""
    name = f"project_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        make = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
        connection.execute(make.format(sql.Identifier(name), sql.Identifier(template)))
        yield server_url.replace("/postgres?", f"/{name}?")
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def project_copy(project: Project, server_url: str, folder: Path, **settings: Any) -> Iterator[Project]:
    """A project as another one is now, with a copy of its database; both are its own to change."""
    original = psycopg.conninfo.conninfo_to_dict(project.settings["database"])["dbname"]
    with new_database(server_url, str(original)) as url:
        shutil.copytree(project.folder, folder)
        made = Project(folder, dict(project.settings))
        made.configure(database=url, **settings)
        made.rows("UPDATE pincite.sources SET root = %s WHERE name = 'docs'", str(made.docs))
        yield made


@contextmanager
def kept_workers() -> Iterator[None]:
    """Runs in this process share one parser pool and one text worker, which else each run starts
    for itself in seconds of imports."""
    from pipelines.settings import ParsingSettings
    from resources.parser_pool import ParserPool
    from resources.text_worker import TextWorker

    pool, worker = ParserPool(ParsingSettings(workers=1)), TextWorker()
    close_pool, close_worker = pool.close, worker.close
    with (
        mock.patch.object(pool, "close"),
        mock.patch.object(worker, "close"),
        mock.patch("resources.parser_pool.ParserPool", lambda settings: pool),
        mock.patch("resources.text_worker.TextWorker", lambda: worker),
    ):
        yield
    close_pool()
    close_worker()


CONTENT = {
    "documents": "doc_id, uri, title, language, groups, metadata, summary, content_hash, stale, row_hash",
    "chunks": "chunk_id, doc_id, ordinal, header_chain, text, overlap, context, spans, tokens, embedding",
    "sentences": "sentence_id, doc_id, ordinal, chunk_id, text, start, previous_id, next_id, embedding",
    "sentence_links": "source_id, target_id, similarity",
    "terms": "term, documents",
    "postings": "term, bucket, cardinality(chunks), (SELECT array_agg(w ORDER BY w) FROM unnest(weights) w)",
}


def content(project: Project) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of the live generation, without what depends on the order in which they were written."""
    ((live,),) = project.rows("SELECT generation FROM pincite.live")
    return {
        table: sorted(project.rows(f"SELECT {columns} FROM g{live:04d}.{table}"), key=repr)
        for table, columns in CONTENT.items()
    }
