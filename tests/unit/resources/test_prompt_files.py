from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import SettingsError
from pipelines.llm.prompts import FIELDS, TAGS, templates_of
from resources.prompts import read_prompts

SHIPPED = read_prompts()


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("language", ["en", "uk"])
def test_every_shipped_prompt_fills_all_its_placeholders(name: str, language: str) -> None:
    template = templates_of(name, SHIPPED[name])[language]
    values = {field: f"<<{field} {number}>>" for number, field in enumerate(FIELDS[name])}
    filled = "\n".join(template.render(**values))
    assert all(value in filled for value in values.values()) and "{" not in filled


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("language", ["en", "uk"])
def test_data_stands_between_tags_that_the_system_text_names(name: str, language: str) -> None:
    template = templates_of(name, SHIPPED[name])[language]
    for field in set(FIELDS[name]) & set(TAGS):
        before, after = template.user.split(f"{{{field}}}")
        assert before.rstrip().endswith(f"<{field}>") and after.lstrip().startswith(f"</{field}>")
        assert f"<{field}>" in template.system
    assert {"en": "is data", "uk": "це дані"}[language] in " ".join(template.system.split())


def test_words_that_code_reads_are_the_same_in_both_languages() -> None:
    for name in ("answer", "choice"):
        assert all(SHIPPED[name][language].count("NOT ANSWERED") == 2 for language in ("en", "uk"))
    assert all("[3] > [1] > [2]" in SHIPPED["listwise"][language] for language in ("en", "uk"))
    assert "Yes or No" in SHIPPED["logprob"]["en"] and "Так або Ні" in SHIPPED["logprob"]["uk"]


def test_a_folder_of_ones_own_goes_over_the_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "summary.en.md").write_text("\ufeffMine.\n---\n{document}", encoding="utf-8")
    (tmp_path / "summary.de.md").write_text("Meins.\n---\n{document}", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no prompt")
    texts = read_prompts(tmp_path)
    assert texts["summary"] == {
        "en": "Mine.\n---\n{document}", "de": "Meins.\n---\n{document}", "uk": SHIPPED["summary"]["uk"]
    }  # fmt: skip
    assert {name: value for name, value in texts.items() if name != "summary"} == {
        name: value for name, value in SHIPPED.items() if name != "summary"
    }


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "sumary.de.md",
            b"S\n---\n{document}",
            r"sumary\.de\.md: no prompt has this name; did you mean summary\.de\.md\?",
        ),
        ("summary.md", b"S\n---\n{document}", r"did you mean summary\.en\.md\?"),
        ("Summary.en.md", b"S\n---\n{document}", r"did you mean summary\.en\.md\?"),
        ("README.md", b"Notes", r"README\.md: no prompt has this name; name it NAME\.en\.md, NAME one of summary"),
        ("summary.en.md", b"S {document}", r"summary\.en\.md: write the system text, then a line '---'"),
        ("summary.en.md", b"S\n---\n{title}", r"summary\.en\.md: the placeholder \{document\} is missing"),
        ("summary.en.md", b"S\n---\n{document} {chunk}", r"summary\.en\.md: unknown placeholder \{chunk\}"),
        ("summary.en.md", b"\xff\xfe---", r"summary\.en\.md: the prompt is not UTF-8; save it as UTF-8"),
    ],
)
def test_a_faulty_file_is_named_with_its_remedy(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SettingsError, match=message):
        read_prompts(tmp_path)


def test_an_unreadable_prompt_or_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"absent: the folder of prompts cannot be listed.*enrichment\.prompts"):
        read_prompts(tmp_path / "absent")
    (tmp_path / "summary.en.md").mkdir()
    with pytest.raises(SettingsError, match=r"summary\.en\.md: the prompt cannot be read"):
        read_prompts(tmp_path)
