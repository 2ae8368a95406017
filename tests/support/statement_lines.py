"""The lines of invented statements: labels, and what kind of number each has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """A line: `section` has no values, `total` is ruled off, `final` doubly; `small` is an amount per
    share; `either` may be negative, `negative` always is."""

    label: str
    indent: int = 0
    section: bool = False
    total: bool = False
    final: bool = False
    dollar: bool = False
    negative: bool = False
    either: bool = False
    small: bool = False
    bold: bool = False


def _entries(text: str) -> tuple[Entry, ...]:
    """Lines of `flags|label`; two spaces before a label indent it."""
    kinds = {"s": "section", "t": "total", "f": "final", "d": "dollar", "n": "negative", "e": "either", "p": "small"}
    found = []
    for line in filter(str.strip, text.splitlines()):
        flags, label = line.split("|")
        indent = (len(label) - len(label.lstrip())) // 2
        options = {kinds[flag]: True for flag in flags.strip() if flag in kinds}
        found.append(Entry(label.strip(), indent, bold="b" in flags, **options))
    return tuple(found)


PROSE = (
    "The accompanying notes form part of these statements and should be read together with them. Amounts "
    "for earlier years were changed to follow the presentation that the company adopted this year, and the "
    "change had no effect on net income or on the total of equity that was reported before.",
    "The company reviews its estimates every quarter and records what changes in the period in which it "
    "becomes known. Actual results may differ from the estimates, and such differences may be material to the "
    "statements taken as a whole.",
)

CONTENTS = {
    "balance": _entries("""
sb|ASSETS
s|Current assets:
d|  Cash and cash equivalents
|  Short-term investments
|  Accounts receivable, net of allowances of $12 and $9, respectively
|  Inventories
|  Prepaid expenses and other current assets
t|    Total current assets
|Property, plant and equipment, net
|Operating lease right-of-use assets
|Goodwill
|Intangible assets, net
|Deferred income taxes
|Other assets
tfd|Total assets
sb|LIABILITIES AND STOCKHOLDERS' EQUITY
s|Current liabilities:
d|  Accounts payable
|  Accrued compensation and benefits
|  Current portion of long-term debt
|  Deferred revenue
t|    Total current liabilities
|Long-term debt, less current portion
|Other liabilities
t|    Total liabilities
s|Commitments and contingencies (Notes 9 and 14)
s|Stockholders' equity:
|  Common stock, $0.01 par value; 400,000,000 shares authorized
|  Additional paid-in capital
e|  Retained earnings (accumulated deficit)
n|  Accumulated other comprehensive loss
n|  Treasury stock, at cost
t|    Total stockholders' equity
tfd|Total liabilities and stockholders' equity
"""),
    "income": _entries("""
s|Net sales:
d|  Products
|  Services
t|    Total net sales
s|Cost of sales:
|  Products
|  Services
t|    Total cost of sales
t|Gross margin
s|Operating expenses:
|  Research and development
|  Selling, general and administrative
|  Restructuring and other charges related to the closing of plants
t|    Total operating expenses
e|Operating income
e|Interest expense, net
e|Other income (expense), net
e|Income before provision for income taxes
|Provision for income taxes
tfd|Net income
s|Earnings per share:
dp|  Basic
dp|  Diluted
"""),
    "cash": _entries("""
sb|Cash flows from operating activities:
d|  Net income
s|  Adjustments to reconcile net income to net cash provided by operating activities:
|    Depreciation and amortization
|    Stock-based compensation
e|    Deferred income taxes
e|    Loss (gain) on sale of property, plant and equipment
s|  Changes in operating assets and liabilities:
e|    Accounts receivable
e|    Inventories
e|    Prepaid expenses and other assets
e|    Accounts payable and accrued liabilities
t|      Net cash provided by operating activities
sb|Cash flows from investing activities:
n|  Purchases of property, plant and equipment
n|  Purchases of marketable securities
|  Proceeds from maturities of marketable securities
n|  Acquisitions of businesses, net of cash acquired
n|      Net cash used in investing activities
sb|Cash flows from financing activities:
|  Proceeds from issuance of long-term debt
n|  Repayments of long-term debt
n|  Dividends paid
n|  Repurchases of common stock
tn|      Net cash used in financing activities
e|Effect of exchange rate changes on cash and cash equivalents
te|Net increase (decrease) in cash and cash equivalents
|Cash and cash equivalents, beginning of year
tfd|Cash and cash equivalents, end of year
"""),
    "segments": _entries("""
d|Northern Europe
|Southern Europe
|Americas
|Asia Pacific
|Corporate and other
tfd|Total
"""),
    "maturities": _entries("""
d|2025
|2026
|2027
|2028
|2029
|Thereafter
t|Total minimum lease payments
n|Less: imputed interest
tfd|Present value of lease liabilities
"""),
    "баланс": _entries("""
sb|АКТИВ
sb|I. Необоротні активи
|Нематеріальні активи
|Незавершені капітальні інвестиції
|Основні засоби
|  первісна вартість
n|  знос
|Довгострокові фінансові інвестиції
|Відстрочені податкові активи
tb|Усього за розділом I
sb|II. Оборотні активи
|Запаси
|Дебіторська заборгованість за продукцію, товари, роботи, послуги
|Дебіторська заборгованість за розрахунками з бюджетом
|Гроші та їх еквіваленти
|Витрати майбутніх періодів
|Інші оборотні активи
tb|Усього за розділом II
tfb|БАЛАНС
"""),
}
