"""Texts that differ in kind, length and script, for embedders."""

TEXTS = (
    "how long are logs kept?",
    "hotel",
    "",
    "Яка температура має бути у сховищі?",
    "东京的酒店限额是多少",
    "  blanks\n\tand  lines ",
    "😀 naïve ünïcödé",
    "word " * 700,
    "x" * 1500,
)
