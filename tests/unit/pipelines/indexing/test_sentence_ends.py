"""Sentences of hand-written texts: ` ‖ ` stands for the space where one ends, `‖` where no space does."""

from __future__ import annotations

import pytest

from pipelines.indexing.boundaries import doubtful, sentence_spans

CASES = {
    "abbreviations": """
        Send it to P.O. Box 12, Leeds. ‖ We reply within a week.
        Acme Inc. and Bolt Ltd. signed the contract. ‖ Both firms are happy.
        Acme Inc. Leeds is the seller. ‖ Bolt Ltd. London buys.
        The seller is Acme Inc. ‖ The buyer is Bolt Ltd. ‖ They met once.
        Dr. Brown and Mrs. Green saw Prof. White. ‖ Mr. Black did not come.
        Bring fruit, e.g. Apples or pears, i.e. Whatever is ripe.
        See fig. 2, sec. 4 and vol. 3, pp. 10–12, for details. ‖ Chapter 5 says more.
        We sell pens, paper, etc. to schools. ‖ We sell pens, ink, etc. ‖ Prices vary.
        Order No. 5 was lost. ‖ Is it lost? ‖ No. ‖ Nobody has seen it.
        Items Nos. 4 and 5 of Art. 7 apply. ‖ Art. 8 does not.
        Lee et al. (2019) found it. ‖ It was shown by Wang et al. ‖ The proof is short.
        Maj. Gen. Earl Van Dorn and Lt. Col. Lee came to St. Louis on Jan. 5. ‖ It was cold.
        The U.S. Treasury pays. ‖ He lives in the U.S. ‖ She does not.
        Made by Reliance Life Sciences Pvt. Ltd. in India. ‖ Sold by Mfg. Co. Leeds.
        He holds a Ph.D. in law. ‖ She has an M.A. ‖ They teach.
        It rose by approx. 5 % vs. 3 % in 2019. ‖ The rest fell.
        The office opens at 9 a.m. Monday to Friday. ‖ It shuts at 5 p.m. ‖ The shop does not.
        Wait at Main St. Station until ca. 6 p.m. today.
        It grows on Mt. Etna. ‖ So says Sen. Miller.
        Use our website or app. ‖ If you can, call us.
    """,
    "law": """
        Duties are found in 11 U.S.C. § 704. ‖ These include reports.
        Records are open under 5 U.S.C. § 552(a)(4)(A) and 28 C.F.R. § 58.4(b). ‖ The Handbook is advisory.
        The motion was made under Fed. R. Civ. P. 12(b)(6). ‖ The court denied it.
        In Roe v. Wade, 410 U.S. 113 (1973), the Court held so. ‖ It was overruled.
        See Smith v. The State, 123 F.3d 456, 460 (9th Cir. 1999). ‖ Id. at 461.
        Pub. L. No. 104-191 applies. ‖ § 586 of title 28 does too.
        Under Art. 6 § 1 and Art. 13 the claim stands. ‖ The State objects.
        Відповідно до ст. 5 п. 3 ч. 2 Закону України діє інше правило. ‖ Воно нове.
        Згідно з п. 3.2 ст. 12 гл. 4 Кодексу це заборонено. ‖ Штраф сплачують.
        Див. ч. 1 ст. 41 Конституції України. ‖ Право власності є непорушним.
        Постанова від 01.02.2026 р. № 5 набирає чинності. ‖ Попередня втрачає чинність.
        Стаття 5. Права пацієнта. ‖ Пацієнт має право на інформацію.
        Розділ 2. Загальні положення та ін. терміни.
        Закон набрав чинності 1 січня 2024 р. ‖ Порядок затверджено пізніше.
    """,
    "numbered": """
        1. Records are kept for seven years. ‖ Copies are not.
        1.2.3 Records are kept. ‖ 1.2.4 Copies are not.
        1.2.3. Records are kept. ‖ 1.2.4. Copies are not.
        (a) Records are kept; (b) copies are not. ‖ (c) Nothing else applies.
        (a) Records are kept. ‖ (b) Copies are not. ‖ (ii) Neither are drafts.
        a) перша умова; б) друга умова. ‖ в) третя умова.
        4. Avoid sugar. ‖ 5. Sleep well. ‖ 6. Walk.
        Section 4. Definitions. ‖ In this Act a person is anyone.
        Table 1. Limits by city. ‖ Figure 12.3. Flow of work.
        Item 1b. Unresolved comments. ‖ Item 2. Properties.
        IV. The fourth part begins. ‖ V. The fifth follows.
        А. Перший варіант. ‖ Б. Другий варіант.
        1. Загальні положення. ‖ 2. Права сторін. ‖ 3. Обов'язки.
        Перелік подано нижче. ‖ 1) заява; 2) копія паспорта.
        The rule has limits. ‖ (b) applies to firms.
        Виплата становить 100 грн. ‖ 2. Строки виплати визначає наказ.
    """,
    "numbers": """
        It weighs 3.5 kg and costs 1,000.00 in all. ‖ The other costs .5 more.
        Take 3.5 mg. ‖ Then rest for 2.5 h. ‖ Repeat.
        It costs £5. ‖ 20 people came. ‖ 3.14 is near pi.
        Version 3.11.2 works. ‖ So does version 3.12. ‖ Use v1.2. ‖ Do not use v1.3.
        Call 555.123.4567 or 10.0.0.1. ‖ The line is open.
        The meeting is on 01.02.2026 at 10.30. ‖ Come early.
        It grew by 5 %. ‖ Then it fell by 2.5%. ‖ Nobody knew why.
        See p. 161. ‖ See pp. 10–12 and p. 3. ‖ The rest is lost.
        It was in 2010. ‖ 2011 was better. ‖ Then came 2012.
    """,
    "units": """
        Доза становить 5 мг/кг. ‖ Для дітей вона менша.
        Призначають по 10 мл. на добу. ‖ Вводять 10 мл. ‖ Потім роблять перерву.
        Зберігати при температурі не вище 25 °С. ‖ Термін придатності – 3 роки.
        Максимум досягається через 1,5 год. ‖ Період напіввиведення – 4 год. ‖ Далі дія слабшає.
        Концентрація становить 12,1, 0,95 і 5,46 мкг/мл. ‖ Час її досягнення невідомий.
        Довжина 5 м. ‖ Ширина 3 м. ‖ Площа 15 м². ‖ Висота інша.
        Вага 70 кг. і більше. ‖ Зріст 180 см. ‖ Вік будь-який.
        Ціна 100 грн. 50 коп. за шт. ‖ Знижок немає.
        Кліренс – 70 мл/хв. ‖ Пацієнти добре переносять препарат.
        The pill has 5 mg. ‖ Swallow it with 200 ml. ‖ Water is best.
        It is 5 ft. ‖ High walls are 10 ft. tall.
    """,
    "ukrainian": """
        Документ підписав Т. Г. Шевченко особисто. ‖ Свідків не було.
        Автор вірша – Шевченко Т. Г. ‖ Він народився у с. Моринці.
        Лікар В. О. Петренко та проф. І. Я. Франко погодились. ‖ Акад. Амосов – ні.
        Адреса: Україна, 03134, м. Київ, вул. Миру, 17. ‖ Телефон нижче.
        Завод: 47000 м. Ажан, Франція. ‖ Склад: обл. Київська, смт. Буча.
        Звертатися за тел. (044) 490 3441. ‖ Факс той самий.
        Реакції шкіри (у т. ч. Кропив’янка) рідкісні. ‖ У т.ч. Набряк.
        Антибіотики, гормони та ін. ‖ Перехресна чутливість можлива.
        Овочі, фрукти тощо. ‖ Хліб, крупи і т. д. ‖ Молоко, сир і т.п. ‖ Решта заборонена.
        Чутливі Klebsiella spp. (у тому числі K. oxytoca) та S. aureus. ‖ Решта стійка.
        Лікування триває 3 р. ‖ Потім його повторюють.
        Див. табл. 3 та рис. 4. ‖ Там є все.
        Застосовують з обережністю (див. розділ «Побічні реакції»). ‖ Дітям не дають.
        Можлива алергія (див. «Особливості застосування»). ‖ Про це кажуть лікарю.
        Населення – 5 тис. осіб, бюджет – 2 млн. грн. ‖ Борг – 3 млрд. ‖ Це забагато.
        Це було до н. е. ‖ Потім прийшли греки.
        Виробник. ‖ Р. П. Шерер ГмбХ та Ко. КГ, Німеччина.
        Він жив на р. Дніпро у 2020 р. ‖ Тепер живе у Львові.
        Вітамін С. ‖ Його багато в шипшині.
        «Ходімо!» — сказав він. ‖ «Куди?» — спитала вона.
        Іржа вкриває метал (мал. 8). ‖ Електродриль подано на мал. 119. ‖ Він легкий.
        Продано понад 63 тис. ‖ Тобто вдвічі більше. ‖ Дивним це аж ніяк не є. ‖ Втім, є й інше.
    """,
    "marks": """
        Wait... ‖ Now go. ‖ He paused… and left. ‖ Then… ‖ Nothing.
        Все скінчилось… ‖ Почалося нове. ‖ Він чекав... але марно.
        Really?! ‖ Yes! ‖ No way!!! ‖ Is it ready? yes, it is.
        Чи готово?.. ‖ Так! ‖ Дякую.
        He said "no." ‖ She left! ‖ “Why?” he asked. ‖ “Because.”
        (It was late.) ‖ [Nobody came.] ‖ He slept (as usual). ‖ Then he woke.
        It was called a "duck."[52] ‖ The word is old.[5][21] ‖ It stays.[citation needed] ‖ So be it.
        Great job! 🎉 ‖ Next one. ‖ Done. 👍🏽 ‖ Go on.
        We use the passages C = {p1, p2, . . . , pM} here. ‖ They are short.
        The rates are 5 %, 10 %, etc., in that order. ‖ No others apply.
        He asked: is it ready? ‖ She said nothing; he left.
        I like iPhones. ‖ iPhone sales grew. ‖ eBay did not.
        The end is near . ‖ Not yet .
        It ends here ." ‖ Next he spoke.
        Вона сказала: «Так». ‖ Він пішов. ‖ «Ні». ‖ Кінець.
    """,
    "addresses": """
        Write to a.b@example.org. ‖ We answer soon.
        See www.example.org. ‖ Retrieved in 2019.
        Read https://example.org/a.b?c=d.e. ‖ Then log in.
        Open file.tar.gz and read.me. ‖ Do not run it.
        Пишіть на info@moz.gov.ua. ‖ Сайт: https://moz.gov.ua. ‖ Відповідь за 5 днів.
        Run pip install foo. ‖ The package bar.baz is next.
    """,
    "names": """
        The J. Smith collection was moved. ‖ J. R. R. Tolkien wrote it.
        It was by John F. Kennedy and H. G. Wells. ‖ Both are dead.
        In C. albicans, P. carinii and E. coli it differs. ‖ The cause is unknown.
        It runs DB2 for i. ‖ The following is new.
        Take vitamin C. ‖ It helps. ‖ Choose plan B. ‖ The cost is less.
        Livezey, Bradley C. (1986). ‖ "A phylogenetic analysis".
    """,
    "lower case": """
        the rate rose in 2010. ‖ however, the u.s. district court fell. ‖ it was in the u.s. ‖ the firm, inc. paid.
        see note 5. ‖ the company adopted fin no. 48 in full. ‖ nothing else changed.
        it costs $5.2 million, e.g. in cash. ‖ we paid it.
        тільки малі літери. ‖ і друге речення. ‖ див. ст. 5 тут.
    """,
    "german": """
        Er kam am 3. Oktober an. ‖ Am 12. März 2020 ging er.
        Im 19. Jahrhundert war es anders. ‖ Der 2. Weltkrieg änderte alles.
        Es gibt z. B. Äpfel und d. h. Obst. ‖ Vgl. Abs. 3 und Nr. 5.
        Dr. Müller hat bzw. Hatte recht. ‖ Das ist alles.
        Er ist 20. ‖ Sie ist 30. ‖ Das stimmt.
        „Komm!“ ‖ Er kam. ‖ »Nein.« ‖ »Doch.«
        Gemäß § 5 Abs. 2 Nr. 3 BGB gilt dies. ‖ Die Frist läuft.
    """,
    "french": """
        M. Dupont et Mme Durand sont là. ‖ Ils attendent.
        Il dit : « Oui. » ‖ Puis il partit. ‖ « Non ! » ‖ Elle resta.
        Voir art. 5, p. 12 et fig. 3. ‖ La suite est plus loin.
        Quoi ? ‖ Rien. ‖ C'est fini !
    """,
    "polish": """
        Prof. dr hab. Jan Kowalski mieszka przy ul. Długiej. ‖ To niedaleko.
        Zgodnie z art. 5 ust. 3 pkt 2 ustawy z 2020 r. to prawo wygasa. ‖ Nowe już jest.
        Kupił chleb, mleko itd. ‖ Wrócił o 5. ‖ Nie spał.
        Ma np. Psa i kota, tzn. Dwa zwierzęta. ‖ Lubi je.
    """,
    "other scripts": """
        最初の文。‖次の文。‖終わり
        「最初の文。」‖次の文！？‖終。
        他说：“好。”‖然后走了。‖价格是3.5元。
        यह पहला वाक्य है। ‖ यह दूसरा है।
        هل هذا جيد؟ ‖ نعم.
    """,
}
LINES = [(name, line.strip()) for name, block in CASES.items() for line in block.strip().splitlines()]


def split(text: str) -> list[str]:
    return [text[start:end] for start, end in sentence_spans(text)]


@pytest.mark.parametrize("line", [line for _, line in LINES], ids=[name for name, _ in LINES])
def test_sentences_end_where_a_reader_ends_them(line: str) -> None:
    text = line.replace(" ‖ ", " ").replace("‖", "")
    assert split(text) == [part.strip() for part in line.split("‖")]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "Name of employee\nDate of birth\nHe came\nback soon.",
            ["Name of employee", "Date of birth", "He came\nback soon."],
        ),
        ("Leeds,\nUnited Kingdom\n\nNext block", ["Leeds,\nUnited Kingdom", "Next block"]),
        ("Sent by Acme Inc.\nLeeds", ["Sent by Acme Inc.", "Leeds"]),
        (
            'He said , " It is over . " She left . " I know . "',
            ['He said , " It is over . "', "She left .", '" I know . "'],
        ),
        ("", []),
        (" \n ", []),
    ],
)
def test_ends_of_lines_and_spaced_quotes(text: str, sentences: list[str]) -> None:
    assert split(text) == sentences


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("He works for the U.S. Treasury officials agree.", 21),
        ("She has hepatitis B. Medicare pays.", 20),
        ("The food was fine. we waited an hour", 18),
        ("Is it ready? yes, it is.", 12),
        ("I don't. he does.", 8),
    ],
)
def test_a_model_is_heard_where_the_rules_cannot_tell(text: str, cut: int) -> None:
    assert doubtful(text) and len(sentence_spans(text)) == 1
    assert sentence_spans(text, [cut]) == [(0, cut), (cut + 1, len(text))]


@pytest.mark.parametrize(
    "text",
    [
        "Sent to Acme Inc. Leeds today.",
        "He is Dr. Brown.",
        "The rule holds. It is old.",
        "the rule holds. it is old.",
        # Before a lower-case word: an abbreviation, a name, numbers, a quote, a space before the stop, an address.
        "We met approx. ten people, Smith et al. too, and their dept. heads by pvt. five.",
        "It ran in Proc. of the Yahoo! and Apple meeting, and in Lee, et. al. (2019).",
        "It weighs 3. or 4. of them.",
        "iv. our Rules may be changed, and vi. our members may do so.",
        "He asked “Why?” and “When?” of her.",
        "A roll of 10 ft . apart is sold . . . it lasts.",
        "See https://openreview. net/forum and github. com/pincite, or vicuna. org / a of it.",
        "Read https://github.com/pincite. more is there.",
        "These are the layers. arXiv has it.",
        "Wait... it comes… now.",
    ],
)
def test_a_model_is_not_heard_where_they_can(text: str) -> None:
    ends = [at for at, letter in enumerate(text, start=1) if letter == "." or letter == " "]
    assert not doubtful(text) and sentence_spans(text, ends) == sentence_spans(text)
