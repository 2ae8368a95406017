"""The encodings of texts: declared by a label, or guessed from the bytes, in short and in longer texts."""

from __future__ import annotations

import pytest

from pipelines.errors import DocumentError
from resources.parsers.charsets import codec_of, guess_encoding, is_language
from resources.parsers.source_text import decode

TEXTS = {
    "uk": "Працівник має право на щорічну відпустку тривалістю 24 календарні дні. Ґрунт перевіряють у квітні.",
    "ru": "Работник имеет право на ежегодный отпуск продолжительностью 28 дней. Съезд объявлен на среду.",
    "bg": "Служителят има право на платен годишен отпуск от двадесет дни. Молбата се подава писмено.",
    "sr": "Запослени има право на годишњи одмор од двадесет дана. Захтев се подноси писмено, уз рок од недељу дана.",
    "pl": "Pracownik ma prawo do urlopu wypoczynkowego w wymiarze dwudziestu sześciu dni. Wniosek składa się pisemnie.",
    "cs": "Zaměstnanec má nárok na dovolenou v délce pěti týdnů. Žádost se podává písemně nejméně týden předem.",
    "sk": "Zamestnanec má nárok na dovolenku v dĺžke štyroch týždňov. Žiadosť sa podáva písomne, vždy vopred.",
    "hu": "A munkavállalót évente húsz nap fizetett szabadság illeti meg. A kérelmet írásban kell benyújtani.",
    "ro": "Salariatul are dreptul la un concediu anual plătit. Cererea se depune în scris, înainte de începerea lunii.",
    "hr": "Radnik ima pravo na plaćeni godišnji odmor od četiri tjedna. Zahtjev se podnosi pismeno, već u petak.",
    "de": "Der Beschäftigte hat Anspruch auf dreißig Tage Urlaub für jedes volle Jahr. Übrige Tage müssen weg.",
    "fr": "L'employé a droit à cinq semaines de congés payés par année. La demande est présentée à l'avance, très tôt.",
    "es": "El empleado tiene derecho a vacaciones anuales según la antigüedad. La petición se presentará mañana aquí.",
    "pt": "O empregado tem direito a férias anuais remuneradas. As opções são várias: o pedido é feito até amanhã.",
    "it": "Il dipendente ha diritto alle ferie; la quantità è più alta dopo cinque anni. Così si può già chiedere.",
    "sv": "Den anställde har rätt till tjugofem dagars semester om året. Ansökan lämnas på förhand, helst före påsk.",
    "da": "Medarbejderen har ret til fem ugers ferie om året. Ansøgningen skal indgives på forhånd, både før og efter.",
    "fi": "Työntekijällä on oikeus vuosilomaan, jonka pituus määräytyy työsuhteen keston mukaan. Hakemus jätetään.",
    "el": "Ο εργαζόμενος δικαιούται ετήσια άδεια είκοσι ημερών. Η αίτηση υποβάλλεται γραπτώς μία εβδομάδα πριν.",
    "tr": "Çalışan her yıl yirmi gün ücretli izin hakkına sahiptir. Başvuru yazılı olarak bir hafta önce yapılır.",
    "he": "העובד זכאי לחופשה שנתית של עשרים ימים. הבקשה תוגש בכתב שבוע לפני תחילת החופשה.",
    "ar": "يحق للموظف إجازة سنوية مدتها عشرون يوما. يقدم الطلب كتابيا قبل أسبوع من بداية الإجازة.",
    "fa": "کارمند حق دارد بيست روز مرخصي سالانه بگيرد. درخواست بايد يک هفته پيش از آغاز مرخصي داده شود.",
    "lt": "Darbuotojas turi teisę į dvidešimties dienų kasmetines atostogas. Prašymas pateikiamas raštu iš anksto.",
    "lv": "Darbiniekam ir tiesības uz ikgadēju apmaksātu atvaļinājumu. Iesniegums jāiesniedz rakstveidā iepriekš.",
    "et": "Töötajal on õigus põhipuhkusele, mis kestab nelja nädalat. Avaldus tuleb esitada õigel ajal, kirjalikult.",
    "th": "พนักงานมีสิทธิลาพักร้อนปีละสิบวัน ให้ยื่นคำขอเป็นลายลักษณ์อักษรล่วงหน้าหนึ่งสัปดาห์",
    "ja": "社員は年に二十日の有給休暇を取ることができます。申請は一週間前までに書面で行ってください。",
    "zh": "员工每年享有十四天带薪年假。申请应当提前一周以书面形式提交，由部门经理批准。",
    "tw": "員工每年享有十四天特別休假。申請應於一週前以書面提出，並由部門主管核准。",
    "ko": "직원은 매년 이십 일의 유급 휴가를 사용할 수 있습니다. 신청은 일주일 전에 서면으로 해야 합니다.",
}
ENCODINGS = {
    "uk": "cp1251 koi8-u cp1125 mac-cyrillic",
    "ru": "cp1251 koi8-r cp866 cp855 iso8859-5 mac-cyrillic",
    "bg": "cp1251 iso8859-5 cp866",
    "sr": "cp1251 iso8859-5",
    **dict.fromkeys(("pl", "cs", "sk", "hu", "ro", "hr"), "cp1250 iso8859-2 cp852"),
    **dict.fromkeys(("de", "fr", "es"), "cp1252 iso8859-15 cp850 cp437 mac-roman"),
    **dict.fromkeys(("pt", "it", "sv", "da", "fi"), "cp1252 iso8859-15 cp850"),
    "el": "cp1253 iso8859-7 cp737",
    "tr": "cp1254 cp857",
    "he": "cp1255 iso8859-8 cp862",
    "ar": "cp1256 iso8859-6",
    "fa": "cp1256",
    **dict.fromkeys(("lt", "lv", "et"), "cp1257 iso8859-13 cp775"),
    "th": "cp874",
    "ja": "cp932 euc_jp",
    "zh": "gb18030",
    "tw": "big5",
    "ko": "cp949",
}
CASES = [(language, encoding) for language, names in ENCODINGS.items() for encoding in names.split()]


@pytest.mark.parametrize(("language", "encoding"), CASES)
def test_an_encoding_that_is_not_declared_is_guessed(language: str, encoding: str) -> None:
    text, warnings = decode(TEXTS[language].encode(encoding), "a.txt")
    assert text == TEXTS[language]
    assert len(warnings) == 1 and warnings[0].startswith("the text is not UTF-8; it was read as ")


@pytest.mark.parametrize(("language", "encoding"), [case for case in CASES if case[1] not in ("cp850", "cp437")])
def test_forty_bytes_are_enough(language: str, encoding: str) -> None:
    data = TEXTS[language].encode(encoding)[:40]
    assert decode(data, "a.txt")[0].rstrip("\ufffd") == data.decode(encoding, "ignore")


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Звіт", "cp1251"),
        ("Їжа та вода", "koi8-u"),
        ("Gruß", "cp1252"),
        ("Łódź", "cp1250"),
        ("שלום", "cp1255"),
        ("日本", "cp932"),
        ("中文", "gb18030"),
        ("price: 5 £", "cp1252"),
        ("בְּרֵאשִׁית בָּרָא אֱלֹהִים אֵת הַשָּׁמַיִם וְאֵת הָאָרֶץ", "cp1255"),
        ("طُرق بمُعطيات\nأدخِل عدداً طبيعيا", "cp1256"),
        ("จำนวนเต็มแบบมีจุลภาค", "cp874"),
        ("ลักแซมเบิร์ก\nมันอาจจะเป็นพาธห", "cp874"),
        ("© 2020 A. Smith", "cp1252"),
        ("Temperatur 20 °C ± 5 %, Fläche 30 m², Ø 12 mm", "cp1252"),
        ("• one\n• two – three", "cp1252"),
        ("ЗАТВЕРДЖЕНО НАКАЗОМ МІНІСТЕРСТВА ФІНАНСІВ", "cp1251"),
        ("Name,Größe\nKühlschrank,1\n", "cp1252"),
        ("│ Gruppe │ Preis │\n├────────┼───────┤\n│ Für alle │ 5 │", "cp437"),
    ],
)
def test_little_text(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding), "a.txt")[0] == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [(TEXTS["ja"], "iso2022_jp"), (TEXTS["ko"], "iso2022_kr"), (TEXTS["zh"], "hz"), ("see ①㈱ｱ", "x-vendor")],
)
def test_seven_bit_encodings(text: str, encoding: str) -> None:
    vendor = b"see \x1b$B-!-j\x1b(I1\x1b(B"
    assert decode(vendor if encoding == "x-vendor" else text.encode(encoding), "a.txt")[0] == text


def test_tildes_and_braces_are_no_chinese() -> None:
    text = "Type ~{foo!~} and then ~{ab~} to leave."
    assert decode(text.encode(), "a.txt") == (text, ())


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("language", ["uk", "en", "zh", "ja", "el"])
def test_utf_16_without_a_mark(language: str, encoding: str) -> None:
    text = "A rule.\n12 days\n" if language == "en" else f"{TEXTS[language]}\n24\n"
    assert decode(text.encode(encoding), "a.txt") == (text, ())


# ---------------------------------------------------------------- declared encodings


@pytest.mark.parametrize(
    ("label", "codec"),
    [
        ("ISO-8859-1", "cp1252"),
        (" latin1 ", "cp1252"),
        ("us-ascii", "cp1252"),
        ("gb2312", "gb18030"),
        ("GBK", "gb18030"),
        ("x-sjis", "cp932"),
        ("ks_c_5601-1987", "cp949"),
        ("big5-hkscs", "big5hkscs"),
        ("tis-620", "cp874"),
        ("iso-8859-9", "cp1254"),
        ("koi8-ru", "koi8-u"),
        ("iso-2022-kr", "iso2022_kr"),
        ("cp437", "cp437"),
        ('"utf-8"', "utf-8"),
        ("x-unknown", None),
        ("", None),
        ("idna", None),
        ("punycode", None),
        ("unicode_escape", None),
        ("base64", None),
        ("utf-7", None),
        ("a\0b", None),
    ],
)
def test_labels(label: str, codec: str | None) -> None:
    assert codec_of(label) == codec


@pytest.mark.parametrize(
    ("label", "data", "text"),
    [
        ("iso-8859-1", "It’s € 5 – “fine”".encode("cp1252"), "It’s € 5 – “fine”"),
        ("gb2312", "员工手册 ① 镕".encode("gb18030"), "员工手册 ① 镕"),
        ("gbk", b"\x80 5 \xc4\xe3\xba\xc3", "€ 5 你好"),
        ("shift_jis", "①㈱ 日本語".encode("cp932"), "①㈱ 日本語"),
        ("euc-kr", "똠방각하".encode("cp949"), "똠방각하"),
        ("iso-2022-jp", b"\x1b$B-!-j\x1b(B abc", "①㈱ abc"),
        ("tis-620", "ราคา “สิบ”".encode("cp874"), "ราคา “สิบ”"),
        ("iso-8859-1", "Gebühr 5 €".encode(), "Gebühr 5 €"),
    ],
)
def test_a_declared_encoding_is_read_as_browsers_do(label: str, data: bytes, text: str) -> None:
    assert decode(data, "a.html", label) == (text, ())


@pytest.mark.parametrize(("label", "language"), [("windows-1252", "uk"), ("iso-8859-1", "ja"), ("utf-8", "fr")])
def test_a_wrong_declaration_is_told(label: str, language: str) -> None:
    encoding = ENCODINGS[language].split()[0]
    text, (warning,) = decode(TEXTS[language].encode(encoding), "a.html", label)
    assert text == TEXTS[language]
    assert warning.startswith("the declared encoding ") and warning.endswith(f"read as {encoding}")


def test_invalid_bytes_are_counted() -> None:
    data = TEXTS["zh"].encode("gb18030") + b"\xff"
    text, warnings = decode(data, "a.txt", "gbk")
    assert text == TEXTS["zh"] + "\ufffd" and warnings == ("1 byte that is invalid in gb18030 was replaced",)


# ---------------------------------------------------------------- text that is none


GARBLED = {
    "half of the bytes set": bytes(
        b | 0x80 if b > 32 else b for b in b"The employee is entitled to leave of 24 days. " * 3
    ),
    "another alphabet": bytes(
        0xC0 + ord(c) - 0x10D0 if c != " " else 32
        for c in "საქართველოს კონსტიტუცია ადამიანის უფლებები და თავისუფლებები"
    ),
    "shifted": bytes((b + 7) % 64 + 192 if b > 127 else b for b in TEXTS["uk"].encode("cp1251")),
    "xor": bytes(b ^ 0x55 | 0x80 for b in TEXTS["de"].encode("cp1252")),
    "mainframe": TEXTS["it"].encode("cp037", "replace"),
    "all high bytes": bytes(range(128, 256)) * 2,
}


@pytest.mark.parametrize("data", GARBLED.values(), ids=GARBLED)
def test_text_that_reads_like_no_language_is_refused(data: bytes) -> None:
    with pytest.raises(DocumentError, match=r"^a\.txt: .*; save the file as UTF-8$") as raised:
        decode(data, "a.txt")
    assert raised.value.code == "corrupt"


@pytest.mark.parametrize("language", TEXTS)
def test_languages_read_like_languages(language: str) -> None:
    assert is_language(TEXTS[language], 0.0) and is_language(TEXTS[language].upper(), 0.0)


def test_utf_8_with_invalid_bytes_stays_utf_8() -> None:
    data = TEXTS["uk"].encode()
    text, warnings = decode(data[:50] + b"\xff" + data[50:], "a.txt")
    assert text.replace("\ufffd", "") == TEXTS["uk"] and warnings == ("1 invalid byte in UTF-8 text was replaced",)


def test_the_guess_looks_at_all_parts_of_a_file() -> None:
    notice, filler = "© Müller\n".encode("cp1252"), b"plain words\n" * 20_000
    assert guess_encoding(filler + TEXTS["uk"].encode("cp1251")).codec == "cp1251"
    assert guess_encoding(filler + TEXTS["uk"].encode("cp1251") + filler).codec == "cp1251"
    assert guess_encoding(notice + filler).codec == "cp1252"
    assert (
        guess_encoding("© 2020\n".encode("cp1251") + filler + TEXTS["uk"].encode("cp1251") + filler).codec == "cp1251"
    )


@pytest.mark.parametrize(
    ("language", "encoding"), [("zh", "gb18030"), ("ja", "euc_jp"), ("ja", "cp932"), ("ko", "cp949")]
)
def test_long_lines_are_not_cut_inside_characters(language: str, encoding: str) -> None:
    line = f"a{TEXTS[language]} b" * 100
    assert decode((line + "\n" + line).encode(encoding), "a.txt")[0] == f"{line}\n{line}"
    assert decode((line * 20).encode(encoding), "a.txt")[0] == line * 20
