"""Options of a question: one is chosen only if a clause supports it by words of its own, in English and Ukrainian."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pipelines.query.answer import chosen
from pipelines.query.assemble import ContextPassage, QuotableSentence, assemble
from pipelines.query.clauses import clauses_of, denies, read
from pipelines.query.support import Weights, weights_of
from tests.support.query_fakes import hit

RECORDS = ["Payroll records are kept for seven years.", "Audit logs are kept for 400 days, and never longer."]
HOTEL = ["A room may cost 140 euros a night, and 190 euros in London and Zurich."]
KEYS = ["The registrar holds the vault key, and the bursar has the archive key."]
LEAVE = ["Unused leave may not be carried over.", "Staff receive 28 days of annual leave."]
BOARD = ["The board met on 4 June 2025 in Leeds.", "The auditors came on 9 July 2025 to York."]
TRAVEL = ["City: London | Hotel: £195 | Meals: £58", "City: Leeds | Hotel: £120 | Meals: £44"]
QUAY = ["Berth: North quay | Owner: Harbour board", "Berth: South quay | Owner: Pilot office"]
ALCOHOL = ["Alcohol is not reimbursed, with or without a meal."]
CLAIM = ["A claim must arrive no later than 30 days after the journey."]
RATE = ["Cars cost 45 pence per mile for the first 10,000 miles, and 25 pence per mile after that."]
HEAT = ["The film store is held at 5 °C.", "The paper store is held at 18 °C."]
CREDIT = ["Credits of 5 % are paid for each hour of delay."]
ЖУРНАЛИ = ["Зарплатні відомості зберігають сім років, а журнали аудиту — 400 днів."]
КІМНАТА = ["Кімната коштує 140 євро за ніч, а в Лондоні — 190 євро."]
КЛЮЧ = ["Ключ від сховища зберігає реєстратор, а ключ від архіву має бухгалтер."]
ВІДПУСТКА = ["Невикористану відпустку не переносять на наступний рік."]
ЗБОРИ = ["Збори відбулися 4 червня 2025 року у Львові.", "Перевірка відбулася 9 липня 2025 року в Києві."]
КОРОБКА = ["Маса коробки має бути не більше 8 кг."]


def weigh(terms: Collection[str]) -> Weights:
    return weights_of(terms, {}, 100)


def context_of(sentences: list[str]) -> list[ContextPassage]:
    own = [QuotableSentence("c", text, 1) for text in sentences]
    found = hit(1, "c", doc_id="d", title="Rules", text="\n".join(sentences))
    return assemble([found], {"c": own}, most=9, tokens=999)[0]


def option_of(question: str, texts: list[str], sentences: list[str]) -> str | None:
    options = dict(zip("ABCD", texts, strict=False))
    letter = chosen(question, options, context_of(sentences), weigh, 0.3).option
    return options[letter] if letter else None


@pytest.mark.parametrize(
    ("sentences", "question", "options", "right"),
    [
        # numbers
        (RECORDS, "how long are audit logs kept?", ["one year", "seven years"], None),
        (RECORDS, "how long are audit logs kept?", ["400 days", "seven years"], "400 days"),
        (RECORDS, "how long are payroll records kept?", ["7 years", "400 days"], "7 years"),
        (HOTEL, "What may a hotel room in London cost a night?", ["140", "150"], None),
        (HOTEL, "What may a hotel room in London cost a night?", ["140", "190"], "190"),
        (HOTEL, "What may a room in Zurich cost a night?", ["140 euros", "190 euros"], "190 euros"),
        (RATE, "What do cars cost per mile for the first 10,000 miles?", ["45 pence", "25 pence"], "45 pence"),
        (RATE, "What do cars cost per mile for the first 10,000 miles?", ["35 pence", "25 pence"], None),
        (TRAVEL, "What is the hotel limit in London?", ["£58", "£195"], "£195"),
        (TRAVEL, "What is the hotel limit in London?", ["£120", "£44"], None),
        (TRAVEL, "What may meals cost in Leeds?", ["£44", "£58"], "£44"),
        (QUAY, "Who owns the south quay?", ["the harbour board", "the pilot office"], "the pilot office"),
        (CLAIM, "By when must a claim arrive after the journey?", ["30 days", "60 days"], "30 days"),
        # units
        (RECORDS, "how long are audit logs kept?", ["400 years", "400 hours"], None),
        (LEAVE, "How much annual leave do staff receive?", ["28 weeks", "28 hours"], None),
        (LEAVE, "How much annual leave do staff receive?", ["28 weeks", "28 days"], "28 days"),
        (CREDIT, "What credits are paid for each hour of delay?", ["5 euros", "5 days"], None),
        (CREDIT, "What credits are paid for each hour of delay?", ["5 percent", "10 percent"], "5 percent"),
        (HEAT, "At what temperature is the film store held?", ["18 °C", "12 °C"], None),
        (HEAT, "At what temperature is the film store held?", ["18 °C", "5 °C"], "5 °C"),
        # names
        (KEYS, "Who holds the vault key?", ["the registrar", "the bursar"], "the registrar"),
        (KEYS, "Who has the archive key?", ["the registrar", "the bursar"], "the bursar"),
        (KEYS, "Who has the archive key?", ["the registrar", "the plumber"], None),
        # dates
        (BOARD, "When did the board meet in Leeds?", ["4 July 2025", "9 June 2025"], None),
        (BOARD, "When did the board meet in Leeds?", ["9 July 2025", "4 June 2025"], "4 June 2025"),
        (BOARD, "When did the auditors come to York?", ["9 July 2024", "4 June 2025"], None),
        # denials
        (LEAVE, "May unused leave be carried over?", ["yes", "no"], "no"),
        (ALCOHOL, "Is alcohol reimbursed?", ["It is reimbursed", "It is not reimbursed"], "It is not reimbursed"),
        (HEAT, "Is the film store held at 5 degrees?", ["no", "yes"], "yes"),
        # Ukrainian
        (ЖУРНАЛИ, "Скільки зберігають журнали аудиту?", ["один рік", "сім років"], None),
        (ЖУРНАЛИ, "Скільки зберігають журнали аудиту?", ["400 днів", "сім років"], "400 днів"),
        (ЖУРНАЛИ, "Скільки зберігають зарплатні відомості?", ["7 років", "400 днів"], "7 років"),
        (КІМНАТА, "Скільки коштує кімната в Лондоні за ніч?", ["140 євро", "150 євро"], None),
        (КІМНАТА, "Скільки коштує кімната в Лондоні за ніч?", ["140 євро", "190 євро"], "190 євро"),
        (КЛЮЧ, "Хто зберігає ключ від сховища?", ["бухгалтер", "реєстратор"], "реєстратор"),
        (КЛЮЧ, "Хто має ключ від архіву?", ["реєстратор", "директор"], None),
        (ВІДПУСТКА, "Чи переносять невикористану відпустку на наступний рік?", ["так", "ні"], "ні"),
        (ЗБОРИ, "Коли відбулися збори у Львові?", ["4 липня 2025 року", "9 червня 2025 року"], None),
        (ЗБОРИ, "Коли відбулися збори у Львові?", ["9 липня 2025 року", "4 червня 2025 року"], "4 червня 2025 року"),
        (КОРОБКА, "Яка маса коробки?", ["8 г", "15 кг"], None),
        (КОРОБКА, "Яка маса коробки?", ["не більше 8 кг", "не більше 15 кг"], "не більше 8 кг"),
    ],
)
def test_an_option_needs_support_of_its_own(
    sentences: list[str], question: str, options: list[str], right: str | None
) -> None:
    assert option_of(question, options, sentences) == right
    assert option_of(question, options[::-1], sentences) == right


def test_a_heading_does_not_lend_its_words_to_another_record() -> None:
    context = context_of([*RECORDS[:1], "Logs are kept for 400 days."])
    question = "how long are audit logs kept?"
    assert chosen(question, {"A": "seven years", "B": "nine years"}, context, weigh, 0.2).option is None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("A room may cost 140 euros a night, and 190 euros in London.", 2),
        ("A claim that arrives between 31 and 90 days needs a signature.", 1),
        ("City: London | Hotel: £195", 2),
        ("Tea and cake are served.", 1),
        ("Logs are kept for 400 days; records are not.", 2),
        ("", 1),
    ],
)
def test_a_sentence_is_divided_where_both_parts_have_a_value(text: str, parts: int) -> None:
    assert len(clauses_of(text)) == parts


def test_numbers_and_units_are_read_alike() -> None:
    assert read("seven years") == read("7 years") == read("сім років") == ["7", "year"]
    assert read("5 %") == read("five percent") and read("£20") == ["pound", "20"]


@pytest.mark.parametrize(
    ("text", "denied"),
    [
        ("It is not paid.", True),
        ("It isn't paid.", True),
        ("no later than May", False),
        ("not more than 8 kg", False),
        ("не більше 8 кг", False),
        ("не видають", True),
        ("never without approval", False),
    ],
)
def test_a_denial_is_told_from_a_limit(text: str, denied: bool) -> None:
    assert denies(text) is denied
