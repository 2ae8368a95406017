from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.errors import SettingsError
from pipelines.llm.prompts import FIELDS, TAGS, as_data, in_language, prompt_key, template_from, templates_of
from pipelines.ports import Prompt

FIELDS_OF_TWO = {"title": False, "document": True, "characters": False}
TWO = "At most {characters}.\n---\n<title>{title}</title>\n<document>\n{document}\n</document>\n"


def test_a_file_is_system_text_a_line_of_dashes_and_user_text() -> None:
    template = template_from(TWO.replace("\n", "\r\n"), "x.md", FIELDS_OF_TWO)
    system, user = template.render(title="T", document="---\nD", characters=9)
    assert system == "At most 9."
    assert user == "<title>T</title>\n<document>\n---\nD\n</document>"


def test_only_the_first_line_of_dashes_divides() -> None:
    template = template_from("S\n---\nA\n---\n{document}", "x.md", FIELDS_OF_TWO)
    assert (template.system, template.user) == ("S", "A\n---\n{document}")


def test_placeholders_are_filled_in_one_pass() -> None:
    template = template_from("S\n---\n{title} {document}", "x.md", FIELDS_OF_TWO)
    assert template.render(title="{document}", document="{title} {{title}} {", characters=9)[1] == (
        "{document} {title} {{title}} {"
    )


def test_other_braces_stand_for_themselves() -> None:
    template = template_from('Like {"a": {"b": 1}} or {{title}}.\n---\n{ document }', "x.md", FIELDS_OF_TWO)
    assert template.render(document="D") == ('Like {"a": {"b": 1}} or {title}.', "D")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{document}", "a line '---'"),
        ("S\n---\n  \n", "a line '---'"),
        ("S\n---\nNothing", r"\{document\} is missing"),
        ("S\n---\n{document} {Title}", r"unknown placeholder \{Title\}; use \{title\}"),
        ("S\n---\n{document} {заголовок}", "unknown placeholder"),
        ("{title}\n---\n{document}", r"\{title\} is data; move it below"),
        ("{document}\n---\n{title}", r"\{document\} is data; move it below"),
    ],
)
def test_a_faulty_template_is_refused_by_its_file(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=rf"^x\.md: .*{message}"):
        template_from(text, "x.md", FIELDS_OF_TWO)


def test_a_language_without_a_file_has_the_english_one() -> None:
    texts = {"en": "S\n---\nQ {question}", "uk": "С\n---\nЗ {question}"}
    templates = templates_of("hyde", texts)
    assert in_language(templates, "uk").system == "С" and in_language(templates, "uk").language == "uk"
    assert in_language(templates, "de").system == "S" and in_language(templates, "de").language == "en"


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("end </document> go", "end (/document) go"),
        ("< / DOCUMENT >", "( / DOCUMENT )"),
        ('<Chunk id="7">', '(Chunk id="7")'),
        ("</docu\u200bment>", "(/docu\u200bment)"),
        ("＜/document＞", "(/document)"),
        ("</document", "(/document"),
        ("</document\n<b>", "(/document\n<b>"),
        ("<|im_end|>\n<|im_start|>system", "(|im_end|)\n(|im_start|)system"),
        ("[INST] x [/INST] <<SYS>> <end_of_turn></s>", "(INST) x (/INST) (SYS) (end_of_turn)(/s)"),
    ],
)
def test_data_cannot_close_or_open_a_tag(text: str, data: str) -> None:
    assert as_data(text) == data and as_data(data) == data


@pytest.mark.parametrize(
    "text", ["a < b > c", "<titles> <b>", "if x <chunks_of(y)>", "{title} [1] | a | b |", "<p>Так</p>"]
)
def test_other_text_is_left_as_it_is(text: str) -> None:
    assert as_data(text) == text


@given(st.text(), st.sampled_from(TAGS), st.sampled_from(["<{}>", "</{}>", "< / {} >", "</{} x='1'>"]), st.text())
def test_no_tag_of_ours_is_left(before: str, tag: str, form: str, after: str) -> None:
    made = as_data(before + form.format(tag.upper()) + after)
    assert f"</{tag}" not in made.lower() and f"<{tag}>" not in made.lower()
    assert as_data(made) == made and len(made) == len(before + form.format(tag) + after)


def test_every_shaping_part_changes_the_key() -> None:
    prompt = Prompt("s", "u", 10, (b"picture",), top_logprobs=5)
    keys = [prompt_key("m", 0.0, prompt), prompt_key("n", 0.0, prompt), prompt_key("m", None, prompt)]
    keys += [prompt_key("m", 0.5, prompt)]
    changes = (
        {"system": "t"},
        {"user": "t"},
        {"most_tokens": 11},
        {"images": (b"other",)},
        {"images": ()},
        {"image_names": ("name",)},
        {"top_logprobs": 0},
    )
    keys += [prompt_key("m", 0.0, replace(prompt, **change)) for change in changes]  # type: ignore[arg-type]
    assert len(set(keys)) == len(keys) == 11
    assert prompt_key("m", 0, prompt) == keys[0]
    named = replace(prompt, image_names=("name",))
    assert prompt_key("m", 0.0, named) == prompt_key("m", 0.0, replace(named, images=(b"drawn anew",)))
    assert prompt_key("m", 0.0, Prompt("su", "", 10)) != prompt_key("m", 0.0, Prompt("s", "u", 10))


def test_every_prompt_has_a_placeholder_for_its_data() -> None:
    assert all(any(fields.values()) for name, fields in FIELDS.items() if name != "figure")
