"""Hostile and damaged files: each ends as an error of one line, whatever it does to the process that reads it."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.errors import VectorFileError
from resources.engine.vectors import matrix
from resources.exchange import vector_file
from resources.exchange.vector_file import VectorFile
from tests.support.waiting import AT_ONCE_SECONDS

DIMENSION = 8
VECTORS = np.random.default_rng(5).standard_normal((300, DIMENSION)).astype(np.float32)
KEYS = [f"{number:032x}" for number in range(len(VECTORS))]
GOOD = pa.table({"key": KEYS, "vector": pa.array(list(VECTORS))})


def read(path: Path) -> np.ndarray:
    """All vectors, after all keys. Raises VectorFileError."""
    with open(path, "rb") as stream, VectorFile("given.parquet", stream, DIMENSION) as file:
        names = [name for _, part in file.names() for name in part]
        vectors = [matrix(table["vector"]) for _, _, table in file.vectors()]
    assert names == KEYS
    return np.concatenate(vectors)


def refused(path: Path) -> VectorFileError:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(VectorFileError) as caught:
        read(path)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 600 << 10, "this process took what the file unfolds into"
    message = str(caught.value)
    assert "\n" not in message and message.startswith("given.parquet") and "; " in message
    return caught.value


def test_a_file_is_read_twice_with_its_order(tmp_path: Path) -> None:
    pq.write_table(GOOD, tmp_path / "good.parquet", row_group_size=7, compression="zstd")
    assert np.array_equal(read(tmp_path / "good.parquet"), VECTORS)


@pytest.mark.parametrize(("name", "stored"), [("key", False), ("text", True)], ids=["plain", "dictionary"])
def test_a_text_that_unfolds_into_gigabytes_is_over_the_limit(name: str, stored: bool, tmp_path: Path) -> None:
    """A megabyte once, and some two thousand rows that name it."""
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2000, np.int32)), pa.array(["a" * (1 << 20)]))
    columns = {"key": pa.array(["0" * 32] * 2000), "vector": pa.array([[1.0] * DIMENSION] * 2000), name: long}
    place = tmp_path / "bomb.parquet"
    with pq.ParquetWriter(place, pa.table(columns).schema, store_schema=stored, compression="zstd") as writer:
        writer.write_table(pa.table(columns))
    assert place.stat().st_size < 8 << 20
    assert refused(place).code == "vectors_limit"


def test_a_list_that_unfolds_into_millions_is_over_the_limit(tmp_path: Path) -> None:
    """One row of ten million zeros, among others that are as they should be."""
    many = np.zeros(10_000_000 + 299 * DIMENSION, np.float16)
    ends = np.concatenate([[0], 10_000_000 + DIMENSION * np.arange(300)]).astype(np.int32)
    table = pa.table({"key": KEYS, "vector": pa.ListArray.from_arrays(pa.array(ends), pa.array(many))})
    place = tmp_path / "bomb.parquet"
    pq.write_table(table, place, compression="zstd", use_dictionary=False)
    assert place.stat().st_size < 1 << 20
    told = refused(place)
    assert told.code == "vectors_limit" and "33,341 dimensions" in str(told)


def test_columns_and_rows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = {f"column {number}": pa.array([0] * 300) for number in range(1100)}
    pq.write_table(
        pa.table({**dict(zip(GOOD.column_names, GOOD.columns, strict=True)), **wide}), tmp_path / "wide.parquet"
    )
    assert refused(tmp_path / "wide.parquet").code == "vectors_limit"
    keys = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10_000_001, np.int8)), pa.array(["0" * 32]))
    vectors = pa.ListArray.from_arrays(pa.array(np.zeros(10_000_002, np.int32)), pa.array([], pa.float32()))
    pq.write_table(pa.table({"key": keys, "vector": vectors}), tmp_path / "long.parquet")
    told = refused(tmp_path / "long.parquet")
    assert told.code == "vectors_limit" and "10,000,001 rows" in str(told)


def test_a_type_with_a_name_of_megabytes_is_said_in_few_words(tmp_path: Path) -> None:
    keys = pa.array([{"\x1b[31m\u202e" + "a" * 1_000_000: 1.0}] * len(KEYS))
    pq.write_table(pa.table({"key": keys, "vector": GOOD["vector"]}), tmp_path / "named.parquet")
    told = refused(tmp_path / "named.parquet")
    assert told.code == "vectors_columns" and "not text" in str(told) and len(str(told)) < 1000
    assert "\x1b" not in str(told) and "\u202e" not in str(told)


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_damaged_bytes_are_refused_or_change_nothing_that_is_believed(seed: int, tmp_path: Path) -> None:
    """Bytes turned, cut out and repeated, in the footer above all."""
    chance = np.random.default_rng(seed)
    pq.write_table(GOOD, tmp_path / "good.parquet", row_group_size=50)
    data = bytearray((tmp_path / "good.parquet").read_bytes())
    for _ in range(1 + seed):
        at = (
            int(chance.integers(len(data) - 600, len(data) - 4))
            if chance.random() < 0.7
            else int(chance.integers(len(data)))
        )
        data[at] = int(chance.integers(256))
    if seed % 3 == 2:
        del data[100:200]
    (tmp_path / "bad.parquet").write_bytes(data)
    try:
        assert read(tmp_path / "bad.parquet").shape[1] == DIMENSION
    except VectorFileError as error:
        assert error.code in {
            "vectors_unreadable",
            "vectors_limit",
            "vectors_columns",
            "vectors_dimension",
            "vectors_values",
        }
    except AssertionError:
        pass  # other keys than were written are read well: `vectors_key`, or unknown


def test_a_footer_that_claims_to_be_longer_than_the_file(tmp_path: Path) -> None:
    pq.write_table(GOOD, tmp_path / "bad.parquet")
    data = (tmp_path / "bad.parquet").read_bytes()
    (tmp_path / "bad.parquet").write_bytes(data[:-8] + (0x7FFFFFF0).to_bytes(4, "little") + b"PAR1")
    assert refused(tmp_path / "bad.parquet").code == "vectors_unreadable"


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGSEGV, "vectors_unreadable"), (signal.SIGKILL, "vectors_limit")])
def test_a_reader_that_dies_is_its_files_fault(sent: signal.Signals, code: str, tmp_path: Path) -> None:
    pq.write_table(GOOD, tmp_path / "good.parquet")
    with open(tmp_path / "good.parquet", "rb") as stream, VectorFile("given.parquet", stream, DIMENSION) as file:
        assert file._process
        file._process.send_signal(sent)
        file._process.wait()
        with pytest.raises(VectorFileError) as caught:
            list(file.names())
    assert caught.value.code == code


def test_a_reader_that_says_nothing_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(GOOD, tmp_path / "good.parquet")
    with open(tmp_path / "good.parquet", "rb") as stream, VectorFile("given.parquet", stream, DIMENSION) as file:
        assert file._process
        file._process.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(vector_file, "SECONDS", AT_ONCE_SECONDS)
        with pytest.raises(VectorFileError, match="took more than") as caught:
            list(file.names())
        process = file._process
    assert caught.value.code == "vectors_limit" and process.returncode == -signal.SIGKILL


SAID: dict[str, Callable[[bytes], bytes]] = {
    "no message": lambda body: b"\x00" * 64,
    "a message without end": lambda body: b"\xff" * 64,
    "no rows": lambda body: body,
}


@pytest.mark.parametrize("name", SAID)
def test_a_reader_is_not_believed(name: str, tmp_path: Path) -> None:
    """Whoever took it over may say anything."""
    from resources.workers.frames import pack

    pq.write_table(GOOD, tmp_path / "good.parquet")
    with open(tmp_path / "good.parquet", "rb") as stream, VectorFile("given.parquet", stream, DIMENSION) as file:
        assert file._process and file._process.stdout
        file._process.kill()
        file._process.wait()
        taken, given = os.pipe()
        os.dup2(taken, file._process.stdout.fileno())
        os.write(given, SAID[name](pack({"kind": "rows", "first": 1}, {"rows": b"no table"})))
        os.close(given)
        os.close(taken)
        with pytest.raises(VectorFileError) as caught:
            list(file.vectors())
    assert caught.value.code == "vectors_unreadable"


def test_the_reader_has_no_network_and_no_other_files(tmp_path: Path) -> None:
    """What it is left with is told by the process itself, where the kernel has these layers."""
    from resources.workers.sandbox import holds

    pq.write_table(GOOD, tmp_path / "good.parquet")
    with open(tmp_path / "good.parquet", "rb") as stream, VectorFile("given.parquet", stream, DIMENSION) as file:
        assert file._process
        status = Path(f"/proc/{file._process.pid}/status").read_text()
        limits = Path(f"/proc/{file._process.pid}/limits").read_text()
    if not holds()["no_new_privileges"]:
        pytest.skip("this kernel lets no process give up its privileges")
    assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    (space,) = [line for line in limits.splitlines() if line.startswith("Max address space")]
    assert "unlimited" not in space.split("bytes")[0].split()[3]
