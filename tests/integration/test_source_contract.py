"""Every source that is no folder keeps the contract of sources, on a real server of its kind."""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from pipelines.errors import SettingsError, SourceError
from pipelines.settings.sources import SourceSettings
from resources.connectors import git, sql_rows
from resources.connectors.mail import mail_name
from resources.connectors.source import SourceAddress, connect
from resources.side_cars import read_side_car
from resources.sources import landing
from resources.sources.landing import Landing
from resources.sources.memberships import ask_memberships
from tests.support.imap_server import ImapServer, imap_server
from tests.support.lying_server import lying_server
from tests.support.projects import new_database
from tests.support.s3_server import ENVIRONMENT, S3Server, s3_server
from tests.support.site import running_site
from tests.support.source_contract import Place, keeps_the_contract, listed, refuses_what_it_does_not_know
from tests.support.stores import (
    KEY,
    AzureContainer,
    GoogleBucket,
    Manifest,
    WebdavFolder,
    azure_container,
    google_bucket,
    webdav_folder,
)
from tests.support.waiting import AT_ONCE_SECONDS

pytestmark = pytest.mark.integration


@dataclass
class Bucket(Place):
    server: S3Server
    ending: str = ".md"

    @property
    def settings(self) -> SourceSettings:
        return SourceSettings(name="papers", path=self.server.address("under"))

    def put(self, uri: str, text: str) -> None:
        self.server.put(f"under/{uri}", text)

    def delete(self, uri: str) -> None:
        self.server.delete(f"under/{uri}")


@dataclass
class Repository(Place):
    """A bare repository, and a working copy that pushes to it."""

    folder: Path
    ending: str = ".md"
    options: dict[str, str] = field(default_factory=lambda: {"ref": "main", "path": "docs"})

    def __post_init__(self) -> None:
        self.work, self.bare = self.folder / "work", self.folder / "bare.git"
        subprocess.run(["git", "init", "-q", "--bare", "-b", "main", self.bare], check=True)
        subprocess.run(["git", "init", "-q", "-b", "main", self.work], check=True)
        self.git("config", "user.email", "writer@example.org")
        self.git("config", "user.name", "writer")

    @property
    def settings(self) -> SourceSettings:
        return SourceSettings(name="papers", path=f"git+file://{self.bare}", options=self.options)

    def git(self, *arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=self.work, check=True, capture_output=True)

    def put(self, uri: str, text: str) -> None:
        file = self.work / "docs" / uri
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.push()

    def delete(self, uri: str) -> None:
        (self.work / "docs" / uri).unlink()
        self.push()

    def push(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "change")
        self.git("push", "-q", "--force", str(self.bare), "main")


@dataclass
class Rows(Place):
    url: str
    ending: str = ".txt"
    query: str = "SELECT id, text FROM papers"
    options: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.run("DROP TABLE IF EXISTS papers")
        self.run("CREATE TABLE papers (id text PRIMARY KEY, text text, title text, groups text[], owner text)")

    @property
    def settings(self) -> SourceSettings:
        return SourceSettings(name="papers", path=self.url, options={"query": self.query, **self.options})

    def run(self, statement: str, *values: object) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement, values or None)  # type: ignore[arg-type]

    def put(self, uri: str, text: str) -> None:
        self.delete(uri)
        self.run("INSERT INTO papers (id, text) VALUES (%s, %s)", uri.removesuffix(".txt"), text)

    def delete(self, uri: str) -> None:
        self.run("DELETE FROM papers WHERE id = %s", uri.removesuffix(".txt"))


@dataclass
class Letters(Place):
    """A letter is named by its subject; a folder of documents is one of mails."""

    server: ImapServer
    ending: str = ".eml"

    @property
    def settings(self) -> SourceSettings:
        return SourceSettings(name="papers", path=self.server.address(), options={"below": "true"})

    def put(self, uri: str, text: str) -> None:
        self.delete(uri)
        folder, _ = self._of(uri)
        self.server.put(self.wrapped(uri, text).encode(), folder)

    def delete(self, uri: str) -> None:
        folder, name = self._of(uri)
        mails = self.server.folders[folder].mails if folder in self.server.folders else {}
        for uid in [uid for uid, mail in mails.items() if mail.raw.startswith(f"Subject: {name}\r\n".encode())]:
            del mails[uid]

    def named(self, uri: str) -> str:
        return f"{self._of(uri)[0]}/{mail_name(self.wrapped(uri, '').encode())}.eml"

    def wrapped(self, uri: str, text: str) -> str:
        return f"Subject: {self._of(uri)[1]}\r\n\r\n{text}"

    @staticmethod
    def _of(uri: str) -> tuple[str, str]:
        folder, _, name = uri.removesuffix(".eml").rpartition("/")
        return folder or "INBOX", name


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with s3_server() as server:
        yield Bucket(server)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "git").mkdir()
    return Repository(tmp_path / "git")


@pytest.fixture(scope="module")
def rows_url(server_url: str) -> Iterator[str]:
    with new_database(server_url) as url:
        yield url


@pytest.fixture
def rows(rows_url: str) -> Rows:
    return Rows(rows_url)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> Iterator[Letters]:
    with imap_server() as server:
        monkeypatch.setenv("IMAP_PASSWORD", server.password)
        yield Letters(server)


class Sums(Manifest):
    def line(self, uri: str, body: bytes) -> str:
        return f"{hashlib.sha256(body).hexdigest()}  {uri}"


@pytest.fixture
def google() -> Iterator[GoogleBucket]:
    with google_bucket() as made:
        yield made


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[AzureContainer]:
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    with azure_container(tmp_path / "azurite") as made:
        yield made


@pytest.fixture
def webdav(tmp_path: Path) -> Iterator[WebdavFolder]:
    with webdav_folder(tmp_path / "webdav") as made:
        yield made


@pytest.fixture
def manifest() -> Iterator[Manifest]:
    with running_site() as site:
        yield Manifest(site)


@pytest.fixture
def sums() -> Iterator[Manifest]:
    with running_site() as site:
        yield Sums(site)


@pytest.fixture(params=["bucket", "google", "azure", "webdav", "manifest", "sums", "repository", "rows", "letters"])
def place(request: pytest.FixtureRequest) -> Place:
    made: Place = request.getfixturevalue(request.param)
    return made


def test_a_source_lists_and_reads_what_is_there(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The emulator of Google's bucket answers as a busy server if an object has another revision by now.
    monkeypatch.setattr("resources.connectors.bucket.PATIENCE", 0.0)
    keeps_the_contract(place, tmp_path / "own")


@pytest.mark.parametrize(
    ("of", "near"),
    [
        ("bucket", "endpoint"),
        ("google", "anonymous"),
        ("azure", "account"),
        ("webdav", "token"),
        ("manifest", "manifest"),
        ("repository", "ref"),
        ("rows", "revision"),
        ("letters", "since"),
    ],
)
def test_a_slip_in_an_option_is_refused(of: str, near: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    settings = request.getfixturevalue(of).settings
    refuses_what_it_does_not_know(
        lambda options: settings.model_copy(update={"options": {**settings.options, **options}}), tmp_path, near
    )


# ---------------------------------------------------------------- buckets


def test_a_bucket_that_is_not_there_is_named(bucket: Bucket, tmp_path: Path) -> None:
    missing = SourceSettings(name="papers", path=bucket.server.address(bucket="nowhere"))
    with pytest.raises(SourceError, match=r"'papers'.*s3://nowhere.*NoSuchBucket.*nothing was changed"):
        listed_of(missing, tmp_path)


def test_an_endpoint_over_plain_http_is_for_loopback(tmp_path: Path) -> None:
    path = "s3://papers/?endpoint=http://store.example.org"
    with pytest.raises(SettingsError, match=r"plain HTTP"):
        connect(SourceSettings(name="papers", path=path), tmp_path)


def test_a_folder_that_a_console_made_is_no_document(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("folder/", "")
    bucket.put("folder/a b#%20ü.md", "text")
    assert listed(bucket, tmp_path).texts == {"folder/a b#%20ü.md": "text"}


def listed_of(settings: SourceSettings, folder: Path) -> list[str]:
    return [entry.uri for page in connect(settings, folder).entries() for entry in page]


# ---------------------------------------------------------------- repositories


def test_history_that_is_rewritten_is_followed(repository: Repository, tmp_path: Path) -> None:
    repository.put("a.md", "one")
    repository.put("b.md", "two")
    assert listed(repository, tmp_path).texts == {"a.md": "one", "b.md": "two"}
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git("mv", "docs/a.md", "docs/c.md")
    repository.push()
    assert listed(repository, tmp_path).texts == {"c.md": "one"}


def test_git_lfs_files_and_symbolic_links_are_named(repository: Repository, tmp_path: Path) -> None:
    repository.put("large.pdf", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n")
    (repository.work / "docs" / "link.md").symlink_to("/etc/passwd")
    repository.push()
    with closing(connect(repository.settings, tmp_path)) as source:
        entries = {entry.uri: entry for page in source.entries() for entry in page}
        source.prepare(list(entries.values()))
        for uri, told in (("large.pdf", "Git LFS"), ("link.md", "symbolic link")):
            with pytest.raises(Exception, match=told):
                list(source.read(entries[uri]))


@pytest.mark.parametrize(
    ("options", "told"),
    [({"ref": "none"}, "none"), ({"ref": "main", "path": "nowhere"}, "nowhere")],
    ids=["branch", "folder"],
)
def test_a_branch_or_folder_that_is_not_there_is_named(
    options: dict[str, str], told: str, repository: Repository, tmp_path: Path
) -> None:
    repository.put("a.md", "one")
    with pytest.raises(SourceError, match=told):
        listed_of(SourceSettings(name="papers", path=repository.settings.path, options=options), tmp_path)


@pytest.mark.parametrize("ref", ["--upload-pack=touch /tmp/x", "-x", "a..b", "a b", "+main", "main:refs/heads/x"])
def test_a_ref_is_never_taken_for_an_option(ref: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="ref is not"):
        connect(SourceSettings(name="papers", path=f"git+file://{tmp_path}", options={"ref": ref}), tmp_path)


def test_a_tree_of_trees_is_given_up_and_leaves_nothing_behind(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten folders that are each the same ten folders: a few hundred bytes that list a billion files."""
    monkeypatch.setattr(landing, "MOST", 5000)
    repository.put("a.md", "one")
    made = _object(repository, "blob", b"text")
    for depth in range(9):
        kind, mode = ("tree", "40000") if depth else ("blob", "100644")
        rows = "".join(f"{mode.zfill(6)} {kind} {made}\t{at}.md\n" for at in range(10))
        made = _given(repository, "mktree", given=rows.encode())
    made = _given(repository, "mktree", given=f"040000 tree {made}\tdocs\n".encode())
    commit = _given(repository, "commit-tree", "-m", "bomb", made)
    repository.git("push", "-q", "--force", str(repository.bare), f"{commit}:refs/heads/main")
    place = Landing(tmp_path, repository.settings)
    with (
        place.alone(),
        closing(connect(repository.settings, place.folder)) as source,
        pytest.raises(SourceError, match="does not end within 5000 entries"),
    ):
        place.bring(source, None)


def test_names_in_a_tree_lead_nowhere(repository: Repository, tmp_path: Path) -> None:
    """What git itself would not make, a server may."""
    blob = bytes.fromhex(_object(repository, "blob", b"text"))
    names = (b"..", b".git", b"/etc", b"a/../b.md", b"c\n.md", b"\xff.md", b"x" * 5000 + b".md")
    docs = b"".join(b"100644 %b\0%b" % (name, blob) for name in sorted([*names, b"sound.md"]))
    tree = _object(repository, "tree", docs)
    root = _object(repository, "tree", b"40000 docs\0" + bytes.fromhex(tree))
    commit = _given(repository, "commit-tree", "-m", "names", root)
    repository.git("push", "-q", "--force", str(repository.bare), f"{commit}:refs/heads/main")
    place = Landing(tmp_path, repository.settings)
    with place.alone(), closing(connect(repository.settings, place.folder)) as source:
        place.bring(source, None)
    assert {path.name for path in place.root.rglob("*.md")} == {"sound.md", "\\xff.md"}


def test_a_name_without_end_fails_the_source(repository: Repository, tmp_path: Path) -> None:
    blob = bytes.fromhex(_object(repository, "blob", b"text"))
    tree = _object(repository, "tree", b"100644 " + b"x" * (3 << 20) + b"\0" + blob)
    root = _object(repository, "tree", b"40000 docs\0" + bytes.fromhex(tree))
    commit = _given(repository, "commit-tree", "-m", "name", root)
    repository.git("push", "-q", "--force", str(repository.bare), f"{commit}:refs/heads/main")
    with pytest.raises(SourceError, match=r"a name of over 64 KB"):
        listed_of(repository.settings, tmp_path)


def test_a_server_of_git_that_hangs_or_talks_without_end_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "_MOST_SECONDS", 1.0)
    advert = b"001e# service=git-upload-pack\n0000"

    def talks(line: str, headers: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\r\n" + advert
        while not server.ended.wait(0.01):
            yield b"0032" + b"a" * 40 + b" refs/h\n"[:6]

    with lying_server() as server:
        # git+https is what the settings take; the server of this test has no certificate.
        source = git.GitSource(SourceAddress("papers", f"git+{server.url}/x", {}, tmp_path), "main", "")
        monkeypatch.setitem(git._ENVIRONMENT, "GIT_ALLOW_PROTOCOL", "http")
        server.says = {"": talks}
        with pytest.raises(SourceError, match="took over an hour"):
            list(source.entries())
        source.close()


def _object(repository: Repository, kind: str, content: bytes) -> str:
    return _given(repository, "hash-object", "-w", "--literally", "-t", kind, "--stdin", given=content)


def _given(repository: Repository, *arguments: str, given: bytes = b"") -> str:
    ran = subprocess.run(["git", *arguments], cwd=repository.work, input=given, check=True, capture_output=True)
    return ran.stdout.decode().strip()


# ---------------------------------------------------------------- rows


def test_a_database_that_falls_silent_is_left(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Of no table, for the server goes on with the query, and holds what it reads.
    rows.query = "SELECT '1' AS id, 'One' AS text, pg_sleep(60)::text AS owner"
    with closing(connect(rows.settings, tmp_path)) as source:
        monkeypatch.setattr(sql_rows, "SECONDS", AT_ONCE_SECONDS)
        with pytest.raises(SourceError, match="papers"):
            list(source.entries())


def test_metadata_columns_of_a_row_form_its_side_car(rows: Rows, tmp_path: Path) -> None:
    rows.query = "SELECT id, text, title, groups, owner FROM papers;"
    rows.run("INSERT INTO papers VALUES ('1', 'One 100%', 'A title: \"quoted\"', ARRAY['hr'], 'Ann')")
    rows.run("INSERT INTO papers VALUES ('2', 'Two', NULL, NULL, NULL)")
    found = listed(rows, tmp_path).texts
    assert found["1.txt"] == "One 100%"
    said = read_side_car("1.txt.meta.yaml", found["1.txt.meta.yaml"].encode(), "papers")
    assert said["groups"] == ("hr",) and said["title"] == 'A title: "quoted"' and said["metadata"] == {"owner": "Ann"}
    with pytest.raises(ValueError, match="groups"):
        read_side_car("2.txt.meta.yaml", found["2.txt.meta.yaml"].encode(), "papers")


def test_a_column_that_may_be_meant_as_groups_withholds(rows: Rows, tmp_path: Path) -> None:
    rows.query = 'SELECT id, text, groups AS "group" FROM papers'
    rows.run("INSERT INTO papers VALUES ('1', 'One', NULL, ARRAY['hr'], NULL)")
    with pytest.raises(ValueError, match="groups"):
        read_side_car("1.txt.meta.yaml", listed(rows, tmp_path).texts["1.txt.meta.yaml"].encode(), "papers")


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ("ARRAY['u-1', 'CN=a,OU=b'] AS principals", ("papers,u-1", "papers,CN=a,OU=b")),
        ("'u-1' AS principals, ARRAY['hr'] AS groups", ("hr", "papers,u-1")),
        ("ARRAY[17, 18] AS principals", ("papers,17", "papers,18")),
        ("ARRAY['u-1'] AS principals, NULL::text[] AS groups", ("papers,u-1",)),
        ("'{}'::text[] AS principals, 'hr' AS groups", ("hr",)),
        ("NULL::text AS principals, NULL::text AS groups", "blank"),
        ("'{}'::text[] AS principals", "blank"),
        ("ARRAY['u-1', NULL] AS principals", "must be a list of names|blank"),
        ("'a,b' AS principals", "comma"),
        ("'u-1' AS principal", "may be meant as principals"),
        ("'u-1' AS acl_principals", "may be meant as principals"),
    ],
)
def test_a_row_names_its_principals(columns: str, wanted: tuple[str, ...] | str, rows: Rows, tmp_path: Path) -> None:
    rows.query = f"SELECT id, text, {columns} FROM papers"
    rows.run("INSERT INTO papers VALUES ('1', 'One', NULL, NULL, NULL)")
    content = listed(rows, tmp_path).texts["1.txt.meta.yaml"].encode()
    if isinstance(wanted, str):
        with pytest.raises(ValueError, match=wanted):
            read_side_car("1.txt.meta.yaml", content, "papers")
    else:
        assert read_side_car("1.txt.meta.yaml", content, "papers")["groups"] == wanted


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ('SELECT id AS principal, owner AS "group" FROM papers;', {("1", "ann"), ("2", "ben")}),
        ('SELECT id AS principal, owner AS "group" FROM papers WHERE false', set()),
        ("SELECT id AS principal, '50%' AS \"group\" FROM papers WHERE text LIKE 'O%'", {("1", "50%")}),
        ("", None),
        ("SELECT id AS principal FROM papers", "group"),
        ('SELECT id AS principal, NULL AS "group" FROM papers', "blank"),
        ("SELECT id AS principal, 'papers,1' AS \"group\" FROM papers", "comma"),
        ('SELECT 1 / 0 AS principal, owner AS "group" FROM papers', "zero"),
        ('DELETE FROM papers RETURNING id AS principal, owner AS "group"', "syntax error"),
        ("SELECT 1) AS x; DELETE FROM papers; SELECT * FROM (SELECT 1", "read-only|multiple"),
    ],
)
def test_rows_tell_memberships(
    query: str, wanted: set[tuple[str, str]] | str | None, rows: Rows, tmp_path: Path
) -> None:
    rows.options = {"memberships": query}
    rows.run("INSERT INTO papers VALUES ('1', 'One', NULL, NULL, 'ann'), ('2', 'Two', NULL, NULL, 'ben')")
    with closing(connect(rows.settings, tmp_path)) as source:
        told = ask_memberships(source)
        assert listed(rows, tmp_path).texts.keys() >= {"1.txt", "2.txt"}
    if wanted is None or isinstance(wanted, set):
        assert (told and told.pairs) == wanted
    else:
        assert told is not None and told.pairs is None and re.search(wanted, told.problem), told


def test_memberships_are_a_file_or_a_query(rows: Rows, tmp_path: Path) -> None:
    rows.options = {"memberships": 'SELECT 1 AS principal, 2 AS "group"'}
    with pytest.raises(SettingsError, match="leave one out"):
        connect(rows.settings.model_copy(update={"memberships": True}), tmp_path)


def test_a_revision_column_decides_what_is_fetched(rows: Rows, tmp_path: Path) -> None:
    rows.query, rows.options = "SELECT id, text, owner FROM papers", {"revision": "owner"}
    rows.run("INSERT INTO papers VALUES ('1', 'One', NULL, NULL, 'r1')")
    before = listed(rows, tmp_path).entries
    rows.run("UPDATE papers SET text = 'Other'")
    assert listed(rows, tmp_path).entries["1.txt"].revision == before["1.txt"].revision
    rows.run("UPDATE papers SET owner = NULL")
    with pytest.raises(SourceError, match="row 1 has no owner"):
        listed(rows, tmp_path)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT id FROM papers", "either text or bytes"),
        ("SELECT text FROM papers", "must return id"),
        ("SELECT id, text FROM nowhere", "nowhere"),
        ("DELETE FROM papers RETURNING id, text", "syntax error"),
        (
            "SELECT id, text FROM papers) AS x; DROP TABLE papers; SELECT * FROM (SELECT 1",
            "read-only",
        ),
        ("SELECT id, lo_import('/etc/passwd')::text AS text FROM papers", "read-only|permission|lo_import"),
    ],
    ids=["no-text", "no-id", "no-table", "writes", "two-statements", "large-object"],
)
def test_a_query_that_cannot_be_meant_is_refused(query: str, told: str, rows: Rows, tmp_path: Path) -> None:
    rows.run("INSERT INTO papers VALUES ('1', 'One', NULL, NULL, NULL)")
    rows.query = query
    with pytest.raises(SourceError, match=told):
        listed(rows, tmp_path)
    rows.run("SELECT id FROM papers")


@pytest.mark.parametrize(
    "path",
    [
        "postgresql://ann:s3cret@db/papers",
        "git+https://s3cret@git.example.org/x",
        "web+https://s3cret@site/",
        "imaps://ann:s3cret@mail.example.org/",
    ],
)
def test_an_address_with_a_secret_is_refused_without_repeating_it(path: str) -> None:
    with pytest.raises(ValueError, match="password or a token") as refused:
        SourceSettings(name="papers", path=path)
    assert "s3cret" not in str(refused.value.errors()[0]["msg"])  # type: ignore[attr-defined]
