"""Options of a question: one is chosen only if a clause supports it by words of its own, in English and Ukrainian."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from pipelines.query.answer import choose_option
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
GIFTS = [
    "Gifts from suppliers must be declared to the compliance officer.",
    "Cash and vouchers are always sent back to the supplier.",
    "Branded pens, diaries and similar tokens may be kept.",
]
DEVICES = [
    "A stolen laptop must be reported to the service desk without delay.",
    "The security team then erases it remotely.",
    "Line managers order a replacement through the purchasing portal.",
]
LAB = [
    "The following must not be brought into the laboratory:",
    "food and drink",
    "open-toed shoes",
    "private electric fans",
    "The following must be worn in the workshop:",
    "steel-capped boots",
    "ear defenders",
]
REMOTE = [
    "Staff may work from home after their probation has ended.",
    "Requests go to the line manager, who answers in writing.",
    "Work from abroad needs the approval of the tax department.",
]
PARKING = [
    "Spaces near the entrance are reserved for visitors and for people with a disability badge.",
    "Bicycles are locked to the racks behind the canteen.",
    "Motorcycles use the gravel area by the gate.",
]
SICK = [
    "Whoever falls ill rings their supervisor before the shift begins.",
    "A doctor's note is handed to the personnel office.",
    "On return, a short interview is held with the supervisor.",
]
PETS = ["Assistance dogs are welcome in every building.", "Other animals have to stay outside."]
MAIL = [
    "Confidential papers are put in the locked blue bins.",
    "Ordinary paper goes into the grey boxes beside the printers.",
    "Batteries are collected at reception.",
]
RAIL = [
    "Journeys by rail are booked in standard class.",
    "First class is allowed where a disability requires it.",
    "Taxis are reimbursed only if no bus or train runs.",
]
TRAIN = [
    "New starters attend the fire safety course in their first month.",
    "Drivers of forklift trucks complete a practical test with an outside examiner.",
    "First aiders renew their certificate at the training centre.",
]
PARCELS = ["A parcel is handed to the porter.", "He signs the green slip."]
CONTRACTS = ["Contracts are approved by the head of the regional legal department."]
КРАПЛІ = [
    "Допоміжні речовини: борна кислота, вода очищена.",
    "Лікарська форма.",
    "Краплі назальні.",
    "Протипоказання.",
    "Підвищена чутливість до компонента препарату.",
]
ТЕРАПІЯ = ["Терапія менінгіту триває 6–8 тижнів.", "Терапія кандидозу триває 14 днів."]


def weigh(terms: Collection[str]) -> Weights:
    return weights_of(terms, {}, 100)


def context_of(sentences: list[str]) -> list[ContextPassage]:
    own = [QuotableSentence("c", text, 1) for text in sentences]
    found = hit(1, "c", doc_id="d", title="Rules", text="\n".join(sentences))
    return assemble([found], {"c": own}, most=9, tokens=999)[0]


def option_of(question: str, texts: list[str], sentences: list[str]) -> str | None:
    options = dict(zip("ABCD", texts, strict=False))
    letter = choose_option(question, options, context_of(sentences), weigh, 0.3).option
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


@pytest.mark.parametrize(
    ("sentences", "question", "options", "right"),
    [
        # the passage has the answer, in other forms or in another order
        (
            GIFTS,
            "What happens to vouchers that a supplier gives?",
            ["They are sent back", "They are declared to the compliance officer", "They may be kept"],
            "They are sent back",
        ),
        (
            DEVICES,
            "Whom do I tell about a stolen laptop?",
            ["the service desk", "the security team", "the line manager"],
            "the service desk",
        ),
        (
            DEVICES,
            "How is a replacement laptop ordered?",
            ["by the security team", "through the purchasing portal", "at the service desk"],
            "through the purchasing portal",
        ),
        (
            LAB,
            "What must not be brought into the laboratory?",
            ["private fans", "ear defenders", "steel-capped boots"],
            "private fans",
        ),
        (
            LAB,
            "What must be worn in the workshop?",
            ["open-toed shoes", "boots with steel caps", "electric fans"],
            "boots with steel caps",
        ),
        (
            PARKING,
            "Where are bicycles parked?",
            ["in the racks behind the canteen", "on the gravel by the gate", "near the entrance"],
            "in the racks behind the canteen",
        ),
        (
            SICK,
            "Who receives the doctor's note?",
            ["the personnel office", "the supervisor", "the board"],
            "the personnel office",
        ),
        (
            MAIL,
            "Where do confidential papers go?",
            ["grey boxes by the printers", "blue locked bins", "reception"],
            "blue locked bins",
        ),
        (
            TRAIN,
            "What do forklift drivers have to do?",
            ["renew a certificate at the training centre", "complete a practical test", "attend a fire safety course"],
            "complete a practical test",
        ),
        (
            REMOTE,
            "Whose approval does work from abroad need?",
            ["the tax department's", "the line manager's"],
            "the tax department's",
        ),
        (RAIL, "When is a taxi reimbursed?", ["if no bus runs", "if a disability requires it"], "if no bus runs"),
        (
            PARCELS,
            "What happens to a parcel?",
            ["handed to a porter who signs a slip", "left"],
            "handed to a porter who signs a slip",
        ),
        # no option is right
        (
            CONTRACTS,
            "Who approves contracts?",
            ["the head of the regional finance department", "the head of the regional supply team"],
            None,
        ),
        (
            GIFTS,
            "To whom are gifts from suppliers declared?",
            ["the head of finance", "the purchasing department"],
            None,
        ),
        (MAIL, "Where do old batteries go?", ["the locked blue bins", "the grey boxes beside the printers"], None),
        (PARKING, "Where are motorcycles parked?", ["behind the canteen", "near the entrance"], None),
        (SICK, "Who receives the doctor's note?", ["the supervisor", "the board"], None),
        (
            TRAIN,
            "What do first aiders renew at the training centre?",
            ["the fire safety course", "the practical test"],
            None,
        ),
        (REMOTE, "Whose approval does work from abroad need?", ["the line manager's", "the landlord's"], None),
        # Ukrainian: a heading that is a sentence of the passage, and the sentence before
        (КРАПЛІ, "Яка лікарська форма препарату?", ["мазь", "краплі назальні", "вода очищена"], "краплі назальні"),
        (КРАПЛІ, "Яка лікарська форма препарату?", ["мазь", "вода очищена"], None),
        (
            КРАПЛІ,
            "Що є протипоказанням?",
            ["підвищена чутливість до компонентів", "застуда"],
            "підвищена чутливість до компонентів",
        ),
        # a value is not a part of a range, and not another value of its kind
        (ТЕРАПІЯ, "Скільки триває терапія менінгіту?", ["до 6 тижнів", "до 8 тижнів"], None),
        (ТЕРАПІЯ, "Скільки триває терапія менінгіту?", ["до 6 тижнів", "6–8 тижнів"], "6–8 тижнів"),
        (ТЕРАПІЯ, "Скільки триває терапія менінгіту?", ["14 днів", "10 днів"], None),
    ],
)
def test_an_option_may_say_it_in_other_words(
    sentences: list[str], question: str, options: list[str], right: str | None
) -> None:
    assert option_of(question, options, sentences) == right
    assert option_of(question, options[::-1], sentences) == right


def test_the_item_of_a_list_is_quoted_with_its_lead_in() -> None:
    options = {"A": "private fans", "B": "ear defenders"}
    (citation,) = choose_option(
        "What must not be brought into the laboratory?", options, context_of(LAB), weigh, 0.3
    ).citations
    assert citation.quote == "The following must not be brought into the laboratory:\nprivate electric fans"


def test_a_heading_does_not_lend_its_words_to_another_record() -> None:
    context = context_of([*RECORDS[:1], "Logs are kept for 400 days."])
    question = "how long are audit logs kept?"
    assert choose_option(question, {"A": "seven years", "B": "nine years"}, context, weigh, 0.2).option is None


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
        ("report it without further delay", False),
        ("без зволікання", False),
        ("without a receipt", True),
    ],
)
def test_a_denial_is_told_from_a_limit(text: str, denied: bool) -> None:
    assert denies(text) is denied
