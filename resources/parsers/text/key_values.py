"""Labels with values, as metadata that `--filter kv.LABEL=VALUE` finds."""

from __future__ import annotations

LONGEST = 200
"""Characters of a label or value; what is longer is text."""
_CHECK_MARKS = "☐☑☒✓✔✗✘"


def key_value(label: str, value: str) -> dict[str, str]:
    """Metadata of one pair; none where either is missing, or too long to be one."""
    label, value = " ".join(label.strip(_CHECK_MARKS + " \t\n").split()).rstrip(" :"), " ".join(value.split())
    short = 0 < len(label) <= LONGEST and 0 < len(value) <= LONGEST
    return {f"kv.{label}": value} if short else {}
