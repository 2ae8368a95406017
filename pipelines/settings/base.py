"""Every setting, with its default, range and meaning. Unknown keys are refused.

The models are frozen. resources/settings_file.py reads the file and the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from pipelines.errors import SettingsError
from pipelines.settings.models import (
    ENRICHING,
    EmbedderSettings,
    EnrichmentSettings,
    LlmSettings,
    former_models,
    recorded_variable,
)
from pipelines.settings.query import QuerySettings
from pipelines.settings.section import Section, explain_errors
from pipelines.settings.serve import ServeSettings
from pipelines.settings.sources import AccessSettings, Readers, SourceSettings

# ---------------------------------------------------------------- address of the shared tables


STORES = ("s3", "gs", "az", "file")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_PART = re.compile(r"[\w .,=+@-]+")
_FORMS = "write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER, or leave it out"


def checked_address(address: str) -> str:
    """Return the address without a slash at its end. Raise ValueError without the address, which may hold a secret."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise ValueError(f"not an address: {_FORMS}") from None
    if parts.scheme not in STORES or not address.startswith(f"{parts.scheme}://"):
        raise ValueError(f"no store is reached so: {_FORMS}")
    if "@" in parts.netloc or "?" in address or "#" in address:
        raise ValueError("an address alone, since it is shown: credentials and endpoints come from the environment")
    names = parts.path.strip("/").split("/")
    if parts.scheme == "file" and (parts.netloc or names == [""]):
        raise ValueError("the path of a folder is absolute: write file:///FOLDER")
    if parts.scheme != "file" and not _BUCKET.fullmatch(parts.netloc):
        raise ValueError(f"no bucket of such a name can be: {_FORMS}")
    plain = names == [""] or all(_PART.fullmatch(name) and name.strip(".") for name in names)
    if not (plain and address.isprintable()):
        raise ValueError(
            "the parts of its path have letters, digits, spaces and _.,=+@- alone, and none is empty or dots"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/")


# ---------------------------------------------------------------- sections


MOST_RELATED = 2
"""Most RELATED_TO links of one sentence, so that n sentences have at most 2n of them (Sentence skeleton)."""


class ParsingSettings(Section):
    timeout_seconds: float = Field(
        120.0, gt=0, description="Longest time one document may take to parse, and at every later stage of its text."
    )
    page_timeout_seconds: float = Field(
        20.0, gt=0, description="Longest time of one page, where a PDF is read page by page after its parser failed."
    )
    memory_mb: int = Field(
        2048, ge=256, description="Address space that a process may add for one document, at every stage, in MB."
    )
    max_characters: int = Field(
        20_000_000, ge=1000, description="Text that one document may give; more is refused with code limit_exceeded."
    )
    max_expansion: int = Field(
        200, ge=1, description="The same for each byte of its file, over the million characters that any file may give."
    )
    workers: int = Field(
        0, ge=0, description="Processes that work on documents; 0 is one for each processor, at most 8."
    )
    documents_per_worker: int = Field(1000, ge=1, description="Documents after which a worker is replaced.")
    max_megabytes: int = Field(512, ge=1, description="Larger files are refused with code limit_exceeded.")
    readers: Readers = Field(
        {},
        description="Who reads files by the ending of their names, such as `.docx: unstructured`; auto is pincite's "
        "own reader where there is one. docs/reference/formats.md has all endings.",
    )
    ocr: Literal["auto", "off"] = Field("auto", description="auto reads scanned pages where OCR is installed.")
    ocr_languages: tuple[str, ...] = Field(
        (), description="As Tesseract names them, such as eng and ukr; none means the installed ones."
    )
    ocr_seconds: float = Field(60.0, gt=0, description="Longest time one scanned page may take to read.")
    hidden: Literal["skip", "read"] = Field(
        "skip",
        description="What a file holds and does not show, such as hidden rows and slides, white or struck-out text: "
        "skip leaves it out and counts it in a warning, read takes it.",
    )
    barcodes: bool = Field(
        False,
        description="Whether bar codes and QR codes in pictures are read, for filters such as kv.barcode=TEXT; needs "
        "the extra `codes`.",
    )


class ChunkingSettings(Section):
    strategy: Literal["structure", "page", "recursive", "sentences", "cluster"] = Field(
        "structure", description="How documents are split; the others are there to compare with."
    )
    target_tokens: int = Field(320, ge=16, description="Own text is packed up to this many tokens; page has no limit.")
    max_tokens: int = Field(
        512, ge=16, description="structure: longer paragraphs and rows are divided, and own text stays within it."
    )
    overlap_tokens: int = Field(
        64,
        ge=0,
        description="Most tokens repeated from the chunk before: structure where neighbours are alike, recursive "
        "always, others never; 0 is none.",
    )
    overlap_floor: float | Literal["auto"] = Field(
        "auto", description="Cosine from which neighbours overlap; auto is calibrated from the corpus."
    )
    clause_tokens: int = Field(25, ge=1, description="A statement with a number this short or shorter is a clause.")

    @model_validator(mode="after")
    def _require_order(self) -> ChunkingSettings:
        if self.target_tokens > self.max_tokens:
            raise ValueError(
                f"target_tokens ({self.target_tokens}) is over max_tokens ({self.max_tokens}); raise max_tokens, or "
                "lower target_tokens"
            )
        return self


class SentenceSettings(Section):
    min_characters: int = Field(3, ge=1, description="Shorter sentences are not made.")
    min_words: int = Field(1, ge=1, description="Sentences of fewer words are not made.")
    min_confidence: float = Field(
        0.0, ge=0, le=1, description="Sentences of elements that the parser is less sure of (OCR) are not made."
    )
    form_labels: bool = Field(True, description="Leave out labels of forms, such as `Name: ____`.")
    embedded: Literal["blended", "mixed", "fast", "header-chain", "bare"] = Field(
        "blended",
        description="What is searched for a sentence: the mean of its vector and its chunk's; the same of its tokens "
        "as they come out of the encoding of its chunk, which costs no pass of its own, for all sentences (fast) or "
        "for those of eight words and more in paragraphs (mixed); the sentence after its headings; or the sentence "
        "alone.",
    )
    related_floor: float = Field(
        0.90, gt=0, le=1, description="Least cosine of a RELATED_TO link; 0.05 less where there would be none."
    )
    related_floors: dict[str, Annotated[float, Field(gt=0, le=1)]] = Field(
        {"multilingual-small": 0.97},
        description="The same by the name of the embedder, where its cosines stand elsewhere.",
    )
    fast_floors: dict[str, Annotated[float, Field(gt=0, le=1)]] = Field(
        {"english-small": 0.85, "multilingual-small": 0.96},
        description="In place of related_floors where sentences.embedded is fast or mixed.",
    )
    related_most: int = Field(
        MOST_RELATED, ge=0, le=MOST_RELATED, description="Most RELATED_TO links from one sentence."
    )

    @property
    def floors_setting(self) -> str:
        """Return the name of the floors that hold: vectors from the encodings of chunks lie nearer to each other."""
        return "fast_floors" if self.embedded in ("fast", "mixed") else "related_floors"


class PublishSettings(Section):
    golden: str | None = Field(None, description="Golden questions scored after each build (JSON lines).")
    max_drop: float = Field(
        0.02, ge=0, le=1, description="Most that recall@5 or accuracy_page may fall for a new generation to go live."
    )
    drift: float = Field(
        1.0,
        gt=0,
        description="Corpus statistics are frozen again, in a new generation, when the chunks have grown by more than "
        "this share, or shrunk as much.",
    )


class VectorIndexSettings(Section):
    memory_mb: int | None = Field(
        None,
        ge=16,
        le=2_097_151,
        description="Memory that the server may take to build one; by default a quarter of the machine's where the "
        "server is embedded, else 2048, or what the server has.",
    )
    workers: int | None = Field(
        None,
        ge=0,
        le=64,
        description="Most processes that build one beside the first, as far as the server has them free; by default "
        "the other cores where it is embedded, else as it is set.",
    )
    precision: Literal["auto", "half", "full"] = Field(
        "auto",
        description="Of the vectors in it: half takes half the bytes. auto leaves an index as it is and takes half for "
        "new ones; above 2,000 dimensions it is always half. Another one than it has builds it again, and searches "
        "compare every row meanwhile.",
    )


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_CRON_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
"""The fields of a schedule: each with its least and greatest number, and the names that numbers have."""
_CRON_NAMES = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")


def _require_cron(text: str) -> None:
    """Raise ValueError unless the text is a valid schedule for Dagster."""
    fields = text.split()
    if text in _CRON_NAMES:
        return
    if len(fields) != len(_CRON_FIELDS):
        raise ValueError(
            f"{text[:40]!r} is no schedule: write minute, hour, day, month and weekday, such as `0 2 * * *` for every "
            "night at two"
        )
    for value, (name, least, most, names) in zip(fields, _CRON_FIELDS, strict=True):
        for part in value.split(","):
            if not _is_cron_part(part.lower(), least, most, names):
                told = f", or a name from {names[0]} to {names[-1]}" if names else ""
                raise ValueError(f"{part[:40]!r} is no {name}: write *, a number from {least} to {most}{told}")


def _is_cron_part(part: str, least: int, most: int, names: tuple[str, ...]) -> bool:
    base, slash, step = part.partition("/")
    if slash and not (step.isdecimal() and int(step[:9])):
        return False
    if most == 7:  # the last or the n-th weekday of a month: L5, 1#2
        base, _, count = base.removeprefix("l").partition("#")
        if count not in ("", "1", "2", "3", "4", "5", "l"):
            return False
    elif most == 31 and base == "l":
        return True
    ends = base.split("-")
    return base in ("*", "?") or (
        len(ends) <= 2
        and all(end in names or (end.isdecimal() and len(end) <= 2 and least <= int(end) <= most) for end in ends)
    )


class ScheduleSettings(Section):
    cron: str = Field("0 2 * * *", description="When the schedule `nightly` runs the job `index`, once turned on.")
    timezone: str = Field("UTC", description="Time zone of the schedule, such as Europe/Kyiv.")

    @field_validator("cron")
    @classmethod
    def _possible(cls, cron: str) -> str:
        _require_cron(cron)
        return cron


class DagsterSettings(Section):
    """The names of an index in Dagster. They shape nothing that is made, so a change of them makes nothing again."""

    key_prefix: tuple[str, ...] = Field(
        (),
        description="Parts before the key of every asset, `docs` or `[search, docs]`, so that several indexes are in "
        "one Dagster; by default none.",
    )
    group: str | None = Field(
        None, description="One group for all assets; by default a group for each part of the flow, such as `chunks`."
    )
    names: str | None = Field(
        None,
        description="What names of jobs, schedules, sensors, resources and groups begin with, before a `_`; by default "
        "the key prefix, joined by `_`.",
    )

    @field_validator("key_prefix", mode="before")
    @classmethod
    def _parts(cls, value: Any) -> Any:
        return value.split("/") if isinstance(value, str) else value

    @field_validator("key_prefix")
    @classmethod
    def _words(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for part in value:
            _require_name(part)
        return value

    @field_validator("group")
    @classmethod
    def _path(cls, value: str | None) -> str | None:
        for part in () if value is None else value.split("/"):
            _require_name(part)
        return value

    @field_validator("names")
    @classmethod
    def _word(cls, value: str | None) -> str | None:
        if value is not None:
            _require_name(value)
        return value

    def key(self, asset: str) -> str:
        """Return the key of an asset, written as Dagster shows it."""
        return "/".join((*self.key_prefix, asset))

    def name(self, name: str) -> str:
        """Return the name of a job, schedule, sensor, resource or group."""
        return "_".join((*((self.names,) if self.names else self.key_prefix), name))


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")


def _require_name(part: str) -> None:
    if not _NAME.fullmatch(part):
        raise ValueError(
            "each part of a name in Dagster begins with a letter, and has letters, digits and _ alone, at most 60; "
            f"found {part[:20]!r}"
        )


class Settings(Section):
    """The whole of pincite.yaml."""

    state: str = Field(".pincite", description="Folder of everything pincite keeps.")
    database: str = Field("embedded", description="`embedded`, or a postgresql:// URL.")
    tables: str | None = Field(
        None,
        description="Object store of tables and raw files that several machines share: `s3://BUCKET/PREFIX`, `gs://`, "
        "`az://` or `file:///FOLDER`; by default tables are in the state folder, and files stay where they are. "
        "Credentials come from the environment: docs/guide/operations.md.",
    )
    tables_cache_mb: int = Field(
        4096, ge=16, description="Most that copies of what is in that store take in the state folder."
    )

    @field_validator("database")
    @classmethod
    def _require_known(cls, value: str) -> str:
        if value != "embedded" and not value.startswith(("postgresql://", "postgres://")):
            raise ValueError("expected `embedded`, or an address that begins with postgresql://")
        return value

    buckets: int = Field(16, ge=1, le=64, description="Static partitions of the documents, as Dagster has them.")
    shards: Annotated[int, Field(ge=1)] | Literal["auto"] | None = Field(
        None,
        description="Has no effect any more: files are split as they grow. Leave it out; a later version refuses it.",
    )
    buckets_per_run: int | None = Field(
        None,
        ge=1,
        description="How many of them one run of a backfill has, so that several runs go on at once, on many machines "
        "or one; by default all.",
    )
    sources: tuple[SourceSettings, ...] = Field((), description="Folders and addresses to index.")
    parsing: ParsingSettings = ParsingSettings.model_construct()
    chunking: ChunkingSettings = ChunkingSettings.model_construct()
    sentences: SentenceSettings = SentenceSettings.model_construct()
    enrichment: EnrichmentSettings = EnrichmentSettings.model_construct()
    embedder: EmbedderSettings = EmbedderSettings.model_construct()
    llm: LlmSettings = LlmSettings.model_construct()
    query: QuerySettings = QuerySettings.model_construct()
    publish: PublishSettings = PublishSettings.model_construct()
    vector_index: VectorIndexSettings = VectorIndexSettings.model_construct()
    schedule: ScheduleSettings = ScheduleSettings.model_construct()
    dagster: DagsterSettings = DagsterSettings.model_construct()
    access: AccessSettings = AccessSettings.model_construct()
    serve: ServeSettings = ServeSettings.model_construct()

    @field_validator("tables")
    @classmethod
    def _address(cls, tables: str | None) -> str | None:
        return checked_address(tables) if tables is not None else None

    @model_validator(mode="after")
    def _distinct(self) -> Settings:
        names = [source.name for source in self.sources]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two sources are named {name!r}")
        return self

    @model_validator(mode="after")
    def _buyable(self) -> Settings:
        try:
            for name in self.bought_roles:
                if self.llm.role(name).price is None and self.llm.max_cost is not None:
                    raise SettingsError(
                        f"llm.max_cost bounds what a run may spend, but llm.prices has no price for the model "
                        f"{self.llm.role(name).model!r} of the role {name!r}; add it (0 for one that costs nothing)"
                    )
        except SettingsError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def bought_roles(self) -> tuple[str, ...]:
        """Return the roles for which indexing asks a language model."""
        figures = ("figure",) if self.llm.roles.figure else ()
        return (*figures, *(name for name in ("summary", "context") if getattr(self.enrichment, name) == "llm"))


LARGEST = 2**31 - 1
"""The largest number allowed in any setting. Kernels, databases and JSON fail with unclear messages on some numbers
beyond it, and on NaN."""
_SHAPING = ("buckets", "chunking", "sentences", "enrichment", "embedder")
_PARSING = ("ocr", "ocr_languages", "ocr_seconds", "barcodes")


def shaped_as(settings: Settings, recorded: Mapping[str, Any]) -> Settings:
    """Return these settings with everything that shapes an index replaced by the values recorded for a generation.

    If the record names the same language models, the addresses of these settings are used. Raise SettingsError if this
    version does not support a recorded setting.
    """
    values = settings.model_dump()
    values.update({name: recorded[name] for name in _SHAPING})
    if _models(recorded) != _models(values):
        values["llm"] = dict(recorded.get("llm", {}))
    for section, address, now in (("embedder", "endpoint", settings.embedder), ("llm", "base_url", settings.llm)):
        given = values[section]
        named = given.get("api_key_env"), given.get(address), now.api_key_env, getattr(now, address)
        values[section] = {**given, "api_key_env": recorded_variable(*named)}
    values["parsing"] |= {name: recorded["parsing"][name] for name in _PARSING if name in recorded["parsing"]}
    return settings_from(values, "the settings of the generation")


def _models(values: Mapping[str, Any]) -> Any:
    """Return the part of recorded language model settings that shapes a reply."""
    llm = values.get("llm")
    if not llm:
        return None
    asked = []
    for role in (llm["roles"].get(name) or {} for name in ENRICHING):
        model, own = role.get("model") or llm["model"], role.get("temperature")
        temperature = llm["temperature"] if own is None else None if own == "none" else own
        asked.append([(model, temperature), *former_models(llm.get("former") or {}, model, temperature)][-1])
    return asked, llm["roles"].get("figure") is None


def _numbers(values: Any, place: str = "") -> Iterator[tuple[str, int | float]]:
    """Yield every number among nested values, with its key.

    The numbers in `fields` are left out, since an endpoint gets them unchanged: a seed may be any number."""
    if isinstance(values, int | float) and not isinstance(values, bool):
        yield place, values
    elif isinstance(values, Mapping):
        for key, value in values.items():
            if key != "fields":
                yield from _numbers(value, f"{place}.{key}" if place else str(key))
    elif isinstance(values, list | tuple):
        for at, value in enumerate(values):
            yield from _numbers(value, f"{place}[{at}]")


def settings_from(values: Any, origin: str = "settings") -> Settings:
    """Return settings from plain values.

    Raise SettingsError naming `origin`, every wrong key, and the nearest valid name."""
    if values is None:
        values = {}
    if not isinstance(values, dict):
        found = "a list" if isinstance(values, list) else "one value"
        raise SettingsError(f"{origin}: expected a mapping of settings, each written as `name: value`; found {found}")
    for place, number in _numbers(values):
        if not -LARGEST <= number <= LARGEST:  # NaN fails this test too
            shown = number if abs(number) < 1e30 or isinstance(number, float) else "a far larger one"
            raise SettingsError(
                f"{origin}: setting {place!r}: expected a number between {-LARGEST:,} and {LARGEST:,}; found {shown}"
            )
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(explain_errors(Settings, error.errors()))
        raise SettingsError(f"{origin}: {problems}") from None
