"""Hidden content is left out and counted, or read and counted."""

from __future__ import annotations

from pipelines.parsing.hidden import HiddenContent


def test_hidden_parts_are_left_out_and_one_warning_counts_them() -> None:
    hidden = HiddenContent()
    assert not hidden.take("rows", 2)
    assert not hidden.take("sheets")
    assert hidden.warnings() == (
        "hidden in the file, and left out: 2 rows, 1 sheets; `parsing.hidden: read` takes them",
    )


def test_hidden_parts_are_read_when_the_setting_says_so() -> None:
    hidden = HiddenContent(read=True)
    assert hidden.take("rows")
    assert hidden.warnings() == ("hidden in the file, and read: 1 rows",)


def test_a_file_that_hides_nothing_has_no_warning() -> None:
    hidden = HiddenContent()
    hidden.take("rows", 0)
    assert hidden.warnings() == ()
