"""Tables whose files are in an object store, and what is asked of it."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

import pytest

from pipelines.errors import DamagedFile, IndexStateError
from pipelines.increments import DocumentState
from pipelines.ranges import ALL_IDS, Range, bucket_range
from pipelines.records import DocumentSummary
from pipelines.schemas import from_table, to_table
from resources.engine.files import StoredFiles, content_of
from resources.engine.tables import ParquetTables
from resources.postgres.catalog import Written
from tests.support.object_stores import Machine, machine

ROWS = [DocumentSummary(f"doc {number}", f"Summary of {number}.", "off") for number in range(3)]
STATES = {row.doc_id: DocumentState("from", "made") for row in ROWS}


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    return machine(tmp_path / "store", tmp_path / "here")


@pytest.fixture
def there(here: Machine, tmp_path: Path) -> Machine:
    """Another machine with the same store."""
    return machine(tmp_path / "store", tmp_path / "there", book=here.book)


def tables_of(one: Machine) -> ParquetTables:
    return ParquetTables(StoredFiles(one.store, one.cache, one.book))


def write(tables: ParquetTables, rows: list[DocumentSummary] = ROWS, ends: Range = ALL_IDS) -> str:
    return tables.write("summaries", "key", ends, to_table(DocumentSummary, rows), STATES, "note")


@pytest.fixture(autouse=True)
def _known(here: Machine) -> None:
    """The database knows of another file, so that none is taken over."""
    here.book.note({"sentences/key/00-known.parquet": Written(1)})


def test_another_machine_reads_a_written_file_with_one_request(here: Machine, there: Machine) -> None:
    name = write(tables_of(here))
    assert here.objects.taken() == [f"PUT parquet/{name}"]
    tables = tables_of(there)
    assert from_table(DocumentSummary, tables.read(name)) == ROWS
    assert tables.documents(name) == STATES and (tables.note(name), tables.rows(name)) == ("note", 3)
    assert there.objects.taken() == [f"GET parquet/{name}"]
    assert tables_of(there).rows(name) == 3, "another process of the machine has the copy too"
    assert there.objects.taken() == []


def test_who_wrote_a_file_asks_for_it_no_more(here: Machine) -> None:
    tables = tables_of(here)
    name = write(tables)
    here.objects.taken()
    assert tables.exists(name) and tables.rows(name) == 3 and tables.peek(name, ["text"])
    assert here.objects.taken() == []


def test_existence_of_files_takes_one_request_per_folder_or_one_for_all(here: Machine, there: Machine) -> None:
    made = tables_of(here)
    names = [write(made, ROWS, bucket_range(bucket, 20)) for bucket in range(20)]
    tables = tables_of(there)
    assert all(map(tables.exists, names)) and all(map(tables.exists, names))
    assert not tables.exists("summaries/key/00-gone.parquet")
    assert there.objects.taken() == ["LIST parquet/summaries/key/", "SIZE parquet/summaries/key/00-gone.parquet"]
    tables = tables_of(there)
    tables.survey()
    assert all(map(tables.exists, names)) and there.objects.taken() == ["LIST parquet/"]
    later = write(made, ROWS[:1])
    assert tables.exists(later) and tables.exists(later)
    assert there.objects.taken() == [f"SIZE parquet/{later}"], "what another machine wrote since is asked for, once"


def test_a_deleted_file_is_noticed_by_a_read_a_check_and_the_next_listing(here: Machine, there: Machine) -> None:
    name, tables = write(tables_of(here)), tables_of(there)
    assert tables.exists(name)
    here.store.delete([f"parquet/{name}"])
    assert tables.exists(name), "it was seen by this process"
    with pytest.raises(IndexStateError, match="not under file://") as caught:
        tables.read(name)
    assert caught.value.code == "missing_file" and not tables.exists(name)
    name = write(tables_of(here))
    assert tables.intact(name) and tables.rows(name) == 3
    here.store.delete([f"parquet/{name}"])
    assert not tables.intact(name), "although a copy is here"
    assert name not in tables.sizes() and not tables.exists(name)


@pytest.mark.parametrize("way", ["read", "require_intact"])
def test_a_copy_that_was_damaged_here_is_fetched_again(here: Machine, there: Machine, way: str) -> None:
    name, tables = write(tables_of(here)), tables_of(there)
    tables.rows(name)
    copy = Path(tables.place(name))
    copy.write_bytes(b"PAR1" + bytes(40) + b"PAR1")
    there.objects.taken()
    getattr(tables, way)(name)
    assert there.objects.taken() == [f"GET parquet/{name}"]
    assert from_table(DocumentSummary, tables.read(name)) == ROWS and tables.damaged == {}


@pytest.mark.parametrize("way", ["read", "require_intact"])
def test_an_object_with_other_bytes_is_a_damaged_file_until_it_is_made_again(
    here: Machine, there: Machine, way: str
) -> None:
    name, tables = write(tables_of(here)), tables_of(there)
    path = here.folder / "parquet" / name
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DamagedFile):
        getattr(tables, way)(name)
    assert list(tables.damaged) == [name] and not tables.exists(name) and not tables.intact(name)
    assert write(tables) == name, "an object of that name is there already, and is not believed"
    assert tables.intact(name) and tables_of(here).rows(name) == 3


def test_a_glance_fetches_no_more_than_it_needs(here: Machine, there: Machine) -> None:
    many = [DocumentSummary(f"doc {n}", secrets.token_hex(8000), "off") for n in range(300)]
    made = tables_of(here)
    name = write(made, many)
    size = made.sizes()[name]
    tables = tables_of(there)
    read: list[int] = []
    of_store = there.store.read

    def noted(key: str, start: int, end: int) -> bytes:
        read.append(end - start)
        return of_store(key, start, end)

    there.store.read = noted  # type: ignore[method-assign]
    seen = tables.peek(name, ["doc_id"])
    assert seen and seen[0] == "note" and seen[1]["doc_id"].to_pylist() == [row.doc_id for row in many]
    assert sum(read) < size / 2 and len(read) <= 4, (read, size)
    asked = there.objects.taken()
    assert not [each for each in asked if each.startswith("GET")]
    assert tables.peek(name, ["doc_id"]) == seen and there.objects.taken() == [], "and is kept"
    assert tables.peek("summaries/key/00-gone.parquet", ["text"]) is None


def test_pruned_files_go_together_and_their_copies_too(here: Machine) -> None:
    tables = tables_of(here)
    names = [write(tables, ROWS, bucket_range(bucket, 3)) for bucket in range(3)]
    here.objects.taken()
    tables.delete(names[:2])
    assert [each.split()[0] for each in here.objects.taken()] == ["DELETE"]
    assert not tables.exists(names[0]) and tables.exists(names[2]) and tables.files() == names[2:]
    with pytest.raises(IndexStateError):
        tables.read(names[0])


def test_a_busy_store_is_waited_for_and_one_that_stays_busy_ends_the_run(here: Machine) -> None:
    tables = tables_of(here)
    here.objects.busy = 3
    name = write(tables)
    assert len(here.slept) == 3 and tables.exists(name)
    here.objects.busy = 10_000
    with pytest.raises(IndexStateError, match="what is committed is kept") as caught:
        write(tables, ROWS[:1])
    assert caught.value.code == "store"


def test_objects_whose_names_lead_elsewhere_touch_no_file_of_the_machine(here: Machine, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("not ours")
    tables, store = tables_of(here), here.folder
    own = write(tables)
    planted = store / "parquet" / "summaries" / "key" / f"00-{victim}.parquet"  # an absolute path after the last dash
    planted.parent.mkdir(parents=True)
    planted.write_bytes(b"bytes")
    (store / "parquet" / "of somebody else.csv").write_text("a,b")
    assert tables.files("summaries") == [own] and list(tables.sizes()) == [own], "only names that pincite gives"
    for name in (str(victim), f"../../{victim.name}", ".", "a/b", ""):
        for touch in (here.cache.find, here.cache.drop, here.cache.path):
            with pytest.raises(ValueError, match="no name of a copy"):
                touch(name)
    tables.delete(list(tables.sizes()))
    assert victim.read_text() == "not ours" and planted.exists()


def plant(here: Machine, tmp_path: Path, table: str = "summaries") -> str:
    """A sound file that somebody else put into the store, under the name of its content."""
    other = machine(tmp_path / "their store", tmp_path / "theirs")
    name = tables_of(other).write(table, "key", ALL_IDS, to_table(DocumentSummary, ROWS[:2]), {}, "note")
    (here.folder / "parquet" / name).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(other.folder / "parquet" / name, here.folder / "parquet" / name)
    return name


def test_a_file_that_pincite_did_not_write_is_not_looked_through(here: Machine, tmp_path: Path) -> None:
    own, planted = write(tables_of(here)), plant(here, tmp_path)
    tables = tables_of(here)
    assert tables.files("summaries") == [own] and tables.files() == [own]
    assert set(tables.sizes()) == {own, planted}, "pruning and verifying see it"
    tables.delete([planted])
    assert tables.files() == [own] and set(tables.sizes()) == {own}


def test_a_database_that_knows_of_no_file_takes_over_those_that_are_there(
    here: Machine, there: Machine, tmp_path: Path
) -> None:
    """The database was lost: what was made is found again, and what others add from then on is not."""
    old = write(tables_of(here))
    here.book.files.clear()
    tables = tables_of(there)
    new = write(tables, ROWS[:1], bucket_range(1, 2))
    planted = plant(here, tmp_path)
    assert set(tables.files("summaries")) == {old, new} != set(tables.sizes()) == {old, new, planted}
    assert not here.book.files[old].blocks and tables.peek(old, ["text"])
    assert here.book.files[old].blocks, "it was read whole once, so that its parts can be checked from now on"
    assert set(tables_of(here).files("summaries")) == {old, new}


def test_a_partly_read_file_is_hashed_before_it_is_parsed(
    here: Machine, there: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object is replaced by a sound file of other rows: no row of it is seen, though little of it is fetched."""
    rows = [[DocumentSummary(f"{word} {n}", secrets.token_hex(400), "off") for n in range(4000)] for word in "ab"]
    name, other = (write(tables_of(here), each) for each in rows)
    shutil.copy(here.folder / "parquet" / other, here.folder / "parquet" / name)
    tables = tables_of(there)
    assert set(tables.files("summaries")) == {name, other}
    given: list[int] = []
    of_store = there.store.read

    def noted(key: str, start: int, end: int) -> bytes:
        given.append(end - start)
        return of_store(key, start, end)

    monkeypatch.setattr(there.store, "read", noted)
    assert tables.peek(name, ["doc_id"]) is None and given
    assert tables.peek(other, ["doc_id"]), "which is right under its own name"
    assert sum(given) < 1 << 20, "and little of both was fetched"
    here.cache.drop(content_of(name))
    assert tables_of(here).peek(name, ["doc_id"]) is None, "nor by who wrote it"


def test_an_object_that_grew_is_fetched_no_further_than_it_was_written(here: Machine, there: Machine) -> None:
    name = write(tables_of(here))
    with open(here.folder / "parquet" / name, "r+b") as grown:
        grown.truncate(1 << 34)
    with pytest.raises(DamagedFile):
        tables_of(there).read(name)
    assert sum(path.stat().st_size for path in there.cache.fresh().parent.iterdir()) == 0
