"""Texts that ask much of a parser or a stage for their length: by name, a file's ending and the text of a length."""

from __future__ import annotations

from collections.abc import Callable

_SCRIPTS = "жא中٣"
"""A letter of each kind of script whose words have terms of their own kind."""


def _repeated(unit: str, before: str = "", after: str = "") -> Callable[[int], str]:
    return lambda length: before + unit * (length // len(unit)) + after


def _nested(opened: str, inside: str, closed: str) -> Callable[[int], str]:
    return lambda length: opened * (length // len(opened)) + inside + closed * (length // len(opened))


def _deep_list(length: int) -> str:
    """Items each one level below the last, as deep as the length allows: level k takes 2 k characters."""
    return "".join("  " * level + "- x\n" for level in range(int(length**0.5)))


def _lines(template: str) -> Callable[[int], str]:
    return lambda length: "".join(template.format(n=n) for n in range(length // len(template)))


def _table(rows: int | None = None) -> Callable[[int], str]:
    """A Markdown table of so many rows and ever more columns, or of three columns and ever more rows."""

    def made(length: int) -> str:
        columns = length // (5 * rows) if rows else 3
        lines = rows or length // 15
        line = "|" + "ab |" * columns + "\n"
        return line + "|" + "---|" * columns + "\n" + line * lines

    return made


def _mail(header: str) -> Callable[[int], str]:
    return lambda length: "From: a@b.c\nSubject: x\n" + header * (length // len(header)) + "\n\nText of the mail.\n"


def _parts(length: int) -> str:
    head = 'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n'
    return "From: a@b.c\n" + "".join(head.format(n=n) for n in range(length // len(head))) + "\ntext\n"


_UNITS = {
    (".txt",): (
        ("dots", ".", "Contents "),
        ("spaced dots", ". ", "Contents "),
        ("digits", "7", ""),
        ("digits and stops", "1.", ""),
        ("quotes and stops", '." ', "a"),
        ("marks on one letter", "\u0301", "a"),
        ("ellipses", "…", "a"),
        ("mail addresses", "a@b.", ""),
        ("commas at line ends", "a,\n", ""),
        ("abbreviations", "e.g. Dr. No. 5 vs. J. ", ""),
        ("initials", "J. ", ""),
        ("words without stops", "word ", ""),
        ("right to left", "שלום עולם. ", ""),
        ("Chinese", "中文句子。", ""),
        ("no spaces", "abcdefghij", ""),
    ),
    (".md",): (
        ("opening brackets", "[", ""),
        ("closing brackets", ")", "a"),
        ("double brackets", "[[a](", ""),
        ("quotes", '"', "a"),
        ("stars", "*", "a"),
        ("emphasis", "*a **b ", ""),
        ("underscored", "_a __b ", ""),
        ("backticks", "`", "a"),
        ("backticks of many lengths", "`a``b```c````", ""),
        ("pictures", "![a](b ", ""),
        ("entities", "&amp;", ""),
        ("addresses", "http://a.", ""),
        ("less-than signs", "<", ""),
        ("comments", "<!--", ""),
        ("backslashes", "\\", ""),
        ("quoted lines", "> a\n", ""),
        ("nested quotes", ">", ""),
    ),
    (".txt", ".md"): (
        ("underscores", "_", "Signature: "),
        ("spaces", " ", "a"),
        ("tabs", "\t", "a"),
        ("pipes", "|", ""),
        ("hyphens", "-", "a"),
        ("one letter a line", "a\n", ""),
        ("tiny paragraphs", "a b.\n\n", ""),
        ("list items", "- item\n", ""),
        ("numbered items", "1. item\n", ""),
        ("headings", "# A\n\n", ""),
        ("sentences", "A short one. ", ""),
        ("rules", "---\n", "a\n\n"),
    ),
}
"""What is repeated, with its name and what stands before it, by the formats whose readers see more in it than letters.
What is made of a text after reading is the same in both."""

TEXTS: dict[str, tuple[str, Callable[[int], str]]] = {
    **{
        f"{name} in {suffix}": (suffix, _repeated(unit, before))
        for suffixes, units in _UNITS.items()
        for suffix in suffixes
        for name, unit, before in units
    },
    **{f"a word of {letter}": (".txt", _repeated(letter)) for letter in _SCRIPTS},
    "a deep list": (".md", _deep_list),
    "footnotes": (".md", _lines("word[^{n}] and\n\n[^{n}]: note\n\n")),
    "references": (".md", _lines("[a{n}]: http://x\n")),
    "reference uses": (".md", lambda length: "[a]: /x\n\n" + "[a] " * (length // 4)),
    "a table of many rows": (".md", _table()),
    "a table of many columns": (".md", _table(5)),
    "a giant cell": (".md", lambda length: "|a|b|\n|-|-|\n|" + "word " * (length // 5) + "|x|\n"),
    "headings ever deeper": (
        ".md",
        lambda length: "# a\n## b\n### c\n#### d\n\nx\n\n" * (length // 25),
    ),
    **{
        f"{name} in HTML": (".html", made)
        for name, made in (
            ("nested divisions", _nested("<div>", "text", "</div>")),
            ("nested lists", _nested("<ul><li>", "text", "</li></ul>")),
            ("unclosed bold", _repeated("<b>text ", "<p>")),
            ("unclosed tables", _repeated("<table><tr><td>x")),
            ("unclosed paragraphs", _repeated("<p>word ")),
            ("items", _repeated("<li>word</li>", "<ul>", "</ul>")),
            ("rows", _repeated("<tr><td>a<td>b</tr>", "<table>", "</table>")),
            ("columns", lambda length: "<table>" + ("<tr>" + "<td>a" * (length // 25)) * 5 + "</table>"),
            ("spans of rows", _repeated('<tr><td rowspan="9">a<td>b</tr>', "<table>", "</table>")),
            ("entities", _repeated("&nbsp;a&amp;", "<p>")),
            ("punctuation as entities", _repeated("&#44; ", "<p>")),
            ("spaces", _repeated(" ", "<p>a", "b")),
            ("less-than signs", _repeated("<", "<p>a ")),
            ("equal words", _repeated("<p>a</p>")),
            ("breaks", _repeated("a<br>", "<p>")),
            ("links", _repeated('<a href="#x">x</a> ', "<p>")),
            ("definitions", _repeated("<dt>a<dd>b", "<dl>")),
            ("preformatted", _repeated("a\n", "<pre>", "</pre>")),
        )
    },
    "one line in CSV": (".csv", _repeated("a,")),
    "rows in CSV": (".csv", _repeated("a,b\n")),
    "an open quote in CSV": (".csv", _repeated("a,b\n", 'x,"')),
    "quotes in CSV": (".csv", _repeated('"')),
    "quoted fields in CSV": (".csv", _repeated('"a",')),
    "headers of mail": (".eml", _mail("X-A: b\n")),
    "folded header": (".eml", _mail(" folded\n")),
    "addressees": (".eml", lambda length: "To: " + "a@b.c, " * (length // 7) + "\nSubject: x\n\ntext\n"),
    "an encoded subject": (".eml", lambda length: "Subject: " + "=?utf-8?q?a?= " * (length // 14) + "\n\ntext\n"),
    "parts within parts": (".eml", _parts),
    "quoted mail": (".eml", lambda length: "Subject: x\n\n" + "> " * (length // 2) + "\n"),
}
