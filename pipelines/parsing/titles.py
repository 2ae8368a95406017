"""The choice of a document's title, which distinguishes it from others of its source.

The candidates in order: the side-car's title, the file's own title unless it is useless, the cover (the largest text of
a PDF's first page, or the title row of a sheet), the heading above all others, the lines above the first section, and
the file's name. The name of a part (`Overview`, `1. Scope`, `Sheet1`) is not a title.

A parser sees only one document, so a title that others are likely to share gets the file's name in parentheses: `Annual
report (mills-2022)`. This applies to a title that only names a kind of document, or a site and a part of it; to one
found in the text without the year, quarter or version of the file's name; and to a first line that does not look like a
title. The combined title is embedded. A title that is only the file's name is shown, but never embedded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from statistics import median

from pipelines.dates import iso_date
from pipelines.parsing.cleaning import clean_text
from pipelines.records import Element, RawDocument

LONGEST_TITLE = 300
"""Most characters of a title."""
_MAP_SUFFIX = ".elements"
"""The ending that a structural map adds to the name of the file that it describes."""
_PDF, _MAIL, _PAGE = "application/pdf", "message/rfc822", "text/html"
_SHEETS = frozenset(
    (
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.ms-excel",
        "application/vnd.oasis.opendocument.spreadsheet",
    )
)

# ---------------------------------------------------------------- words, by language


PARTS: Mapping[str, str] = {
    "en": """overview; introduction; intro; summary; executive summary; summary of benefits; summary of benefits
        and coverage; summary of changes;
        summary of contents; contents; table of contents; index; list of figures; list of tables; header; footer;
        abstract; foreword; preface; preamble; prologue; acknowledgements; acknowledgments; background;
        conclusion; conclusions; references; bibliography; glossary; definitions; purpose; scope; objective;
        objectives; general; general information; part; section; chapter; article; appendix; annex; schedule; exhibit;
        attachment; page; page of; sheet; worksheet; slide; cover; cover page; front cover; title page; blank
        page; this page intentionally left blank; agenda; minutes; notes; note; tip; tips; warning; caution; danger;
        important; attention; features; highlights; key points; about; about us; about this document; welcome; home;
        home page; main page; start; getting started; faq; data; table; chart; figure; list; text; body; details;
        description; information; confidential; draft; for immediate release; date; name;
        subject; dear sir; dear madam; dear sir or madam; hello; revision history; change history;
        document history; version history; legal notice; copyright""",
    "uk": """огляд; вступ; передмова; зміст; зведення; підсумок; підсумки; резюме; анотація; загальні положення;
        загальна інформація; загальні відомості; висновок; висновки; визначення; терміни та визначення; мета; предмет;
        частина; розділ; глава; стаття; пункт; додаток; сторінка; аркуш; лист; слайд; титульна сторінка; порядок
        денний; протокол; примітка; примітки; увага; важливо; додатки; література; список літератури; джерела;
        таблиця;
        рисунок; перелік; дані; головна; назва; заголовок; для службового користування; проєкт; проект; чернетка""",
    "ru": """обзор; введение; предисловие; содержание; оглавление; резюме; аннотация; общие положения; заключение;
        выводы; определения; цель; часть; раздел; глава; статья; приложение; страница; лист; слайд; повестка дня;
        примечание; внимание; литература; таблица; рисунок; главная; название; заголовок""",
    "de": """ubersicht; uberblick; einleitung; einfuhrung; zusammenfassung; kurzfassung; inhalt; inhaltsverzeichnis;
        inhaltsubersicht; verzeichnis; kopfzeile; vorwort; hintergrund; fazit; schluss; allgemeines; allgemeine
        bestimmungen; begriffsbestimmungen; zweck; geltungsbereich; teil; abschnitt; kapitel; artikel; anhang; anlage;
        seite; blatt; tabelle; folie; deckblatt; titelseite; tagesordnung; protokoll; hinweis; hinweise; achtung;
        warnung; wichtig; literatur; literaturverzeichnis; startseite; titel; entwurf; vertraulich; daten""",
    "fr": """apercu; vue d ensemble; introduction; resume; synthese; sommaire; contenu; table des matieres; entete; en
        tete; avant propos; preface; preambule; contexte; conclusion; conclusions; generalites;
        dispositions generales;
        definitions; objet; objectif; objectifs; partie; section; chapitre; article; annexe; page; feuille; feuil;
        diapositive; page de garde; ordre du jour; proces verbal; remarque; remarques; attention; avertissement;
        important; bibliographie; references; accueil; titre; brouillon; confidentiel; donnees""",
    "es": """vision general; descripcion general; panorama general; introduccion; resumen; resumen ejecutivo;
        contenido;
        contenidos; indice; tabla de contenido; tabla de contenidos; encabezado; prologo; prefacio; antecedentes;
        conclusion; conclusiones; generalidades; disposiciones generales; definiciones; objeto; objetivo; objetivos;
        parte; seccion; capitulo; articulo; anexo; pagina; hoja; diapositiva; portada; orden del dia; acta; nota;
        notas;
        atencion; advertencia; importante; bibliografia; referencias; inicio; titulo; borrador; confidencial;
        datos""",
    "pl": """przeglad; omowienie; wstep; wprowadzenie; streszczenie; podsumowanie; spis tresci; zawartosc; tresc;
        naglowek; przedmowa; slowo wstepne; tlo; wnioski; postanowienia ogolne; informacje ogolne; definicje; cel;
        zakres; czesc; sekcja; rozdzial; artykul; zalacznik; strona; arkusz; slajd; okladka; strona tytulowa; porzadek
        obrad; protokol; uwaga; uwagi; ostrzezenie; wazne; bibliografia; literatura; strona glowna; tytul; projekt;
        poufne; dane""",
    "it": """panoramica; introduzione; riassunto; sommario; sintesi; riepilogo; contenuto; contenuti; indice;
        intestazione; prefazione; premessa; contesto; conclusione; conclusioni; disposizioni generali; definizioni;
        oggetto; scopo; obiettivo; obiettivi; parte; sezione; capitolo; articolo; allegato; appendice; pagina; foglio;
        diapositiva; copertina; frontespizio; ordine del giorno; verbale; nota; note; attenzione; avvertenza;
        importante; bibliografia; riferimenti; titolo; bozza; riservato; dati""",
    "pt": """visao geral; introducao; resumo; sumario; conteudo; indice; cabecalho; prefacio; conclusao; definicoes;
        objetivo; parte; secao; capitulo; artigo; anexo; pagina; folha; planilha; capa; ordem do dia; ata; nota;
        aviso;
        referencias; titulo; rascunho; dados""",
    "nl": """overzicht; inleiding; samenvatting; inhoud; inhoudsopgave; koptekst; voorwoord; achtergrond; conclusie;
        algemeen; definities; doel; deel; hoofdstuk; artikel; bijlage; pagina; blad; dia; voorblad; agenda; notulen;
        opmerking; let op; waarschuwing; belangrijk; titel; concept; vertrouwelijk; gegevens""",
    "cs": """prehled; uvod; souhrn; shrnuti; obsah; zahlavi; predmluva; zaver; definice; cel; cast; oddil; kapitola;
        clanek; priloha; strana; list; snimek; program; zapis; poznamka; upozorneni; literatura; nazev; data""",
    "el": """επισκόπηση; εισαγωγή; περίληψη; σύνοψη; περιεχόμενα; πίνακας περιεχομένων; κεφαλίδα; πρόλογος; ιστορικό;
        συμπεράσματα; συμπέρασμα; γενικά; γενικές διατάξεις; ορισμοί; σκοπός; αντικείμενο; πεδίο εφαρμογής; μέρος;
        ενότητα; κεφάλαιο; άρθρο; παράρτημα; σελίδα; φύλλο; διαφάνεια; εξώφυλλο; ημερήσια διάταξη; πρακτικά; σημείωση;
        σημειώσεις; προσοχή; προειδοποίηση; βιβλιογραφία; αρχική; αρχική σελίδα; τίτλος; προσχέδιο; δεδομένα""",
    "tr": """genel bakış; giriş; özet; yönetici özeti; içindekiler; içerik; dizin; üst bilgi; önsöz; arka plan; sonuç;
        sonuçlar; genel; genel hükümler; genel bilgiler; tanımlar; amaç; kapsam; dayanak; bölüm; kısım; madde; ek;
        ekler; sayfa; sayfa1; slayt; kapak; gündem; tutanak; not; notlar; dikkat; uyarı; önemli; kaynakça; kaynaklar;
        ana sayfa; başlık; taslak; gizli; veriler""",
    "he": """סקירה; סקירה כללית; מבוא; הקדמה; תקציר; סיכום; תקציר מנהלים; תוכן; תוכן עניינים; תוכן העניינים; כותרת;
        רקע;
        מסקנות; כללי; הוראות כלליות; הגדרות; מטרה; מטרות; חלק; סעיף; פרק; נספח; עמוד; גיליון; שקופית; שער; סדר יום;
        פרוטוקול; הערה; הערות; שים לב; אזהרה; חשוב; ביבליוגרפיה; מקורות; דף הבית; טיוטה; סודי; נתונים""",
    "ar": """نظرة عامة; مقدمة; المقدمة; تمهيد; ملخص; الملخص; ملخص تنفيذي; الملخص التنفيذي; المحتويات; قائمة المحتويات;
        جدول المحتويات; الفهرس; فهرس; خلفية; خاتمة; الخاتمة; أحكام عامة; تعريفات; التعريفات; الهدف; الأهداف; الغرض;
        النطاق; جزء; الجزء; قسم; القسم; فصل; الفصل; الباب; مادة; المادة; ملحق; الملحق; صفحة; ورقة; شريحة; الغلاف;
        جدول الأعمال; محضر; ملاحظة; ملاحظات; تنبيه; تحذير; هام; مهم; المراجع; الرئيسية; الصفحة الرئيسية; عنوان; مسودة;
        سري; بيانات""",
    "th": """ภาพรวม; บทนำ; คำนำ; บทสรุป; บทสรุปผู้บริหาร; สรุป; บทคัดย่อ; สารบัญ; เนื้อหา; ดัชนี; ส่วนหัว; ความเป็นมา;
        ข้อมูลทั่วไป; บททั่วไป; คำนิยาม; นิยาม; วัตถุประสงค์; ขอบเขต; ส่วนที่; หมวด; บทที่; มาตรา; ข้อ; ภาคผนวก; หน้า;
        แผ่นงาน; สไลด์; หน้าปก; ปก; วาระการประชุม; หมายเหตุ; ข้อควรระวัง; คำเตือน; สำคัญ; บรรณานุกรม; เอกสารอ้างอิง;
        หน้าแรก; ฉบับร่าง; ข้อมูล""",
    "sv": """översikt; inledning; introduktion; sammanfattning; innehåll; innehållsförteckning; förord; bakgrund;
        slutsats; slutsatser; allmänt; definitioner; syfte; mål; del; avsnitt; kapitel; bilaga; sida; blad; bild;
        dagordning; protokoll; anmärkning; varning; viktigt; referenser; startsida; titel; utkast""",
    "da": """oversigt; indledning; sammenfatning; resumé; sammendrag; indhold; indholdsfortegnelse; forord; baggrund;
        konklusion; generelt; formål; innledning; innhold; innholdsfortegnelse; forside; side; ark; dagsorden;
        bilag; vedlegg; kapittel; afsnit; bemærkning; advarsel; vigtigt; viktig; referencer; referanser; udkast""",
    "fi": """yleiskatsaus; johdanto; tiivistelmä; yhteenveto; sisällys; sisällysluettelo; esipuhe; tausta;
        johtopäätökset; yleistä; määritelmät; tarkoitus; tavoite; osa; luku; liite; sivu; taulukko; dia; huomautus;
        varoitus; tärkeää; lähteet; etusivu; otsikko; luonnos""",
    "hu": """áttekintés; bevezetés; bevezető; összefoglaló; összefoglalás; tartalom; tartalomjegyzék; előszó; háttér;
        következtetések; általános rendelkezések; fogalmak; cél; célok; rész; szakasz; fejezet; melléklet; függelék;
        oldal; munkalap; dia; borító; napirend; jegyzőkönyv; megjegyzés; figyelem; figyelmeztetés; fontos; irodalom;
        kezdőlap; cím; tervezet""",
    "ro": """prezentare generală; introducere; rezumat; sumar; sinteză; cuprins; conținut; antet; prefață;
        cuvânt înainte;
        concluzii; concluzie; dispoziții generale; definiții; scop; obiectiv; obiective; parte; secțiune; capitol;
        articol; anexă; anexa; pagină; foaie; diapozitiv; ordine de zi; proces verbal; notă; atenție; avertisment;
        important; bibliografie; acasă; titlu; ciornă; date""",
    "bg": """преглед; въведение; увод; резюме; обобщение; съдържание; предговор; общи положения; заключение; изводи;
        дефиниции; определения; цел; част; раздел; глава; член; приложение; страница; лист; слайд; дневен ред;
        забележка; внимание; важно; литература; начало; заглавие; чернова""",
    "vi": """tổng quan; giới thiệu; lời giới thiệu; mở đầu; lời mở đầu; tóm tắt; mục lục; nội dung; lời nói đầu;
        bối cảnh;
        kết luận; quy định chung; định nghĩa; mục đích; mục tiêu; phạm vi; phần; chương; điều; phụ lục; trang;
        ghi chú;
        lưu ý; cảnh báo; quan trọng; tài liệu tham khảo; trang chủ; tiêu đề; bản nháp""",
    "cjk": """目录; 目錄; 目次; 概述; 概要; 简介; 簡介; 前言; 引言; 摘要; 序言; 总则; 總則; 附录; 附錄; 附件; 结论;
        結論; 说明; 說明; 議事録; 議題; はじめに; 序文; まえがき; 付録; 目的; 注意; 适用范围;
        適用範囲; 背景; 总结; 總結; 结语; 表紙; 附則; 附则; 参考文献; 首页; 首頁; 标题; 標題; 草稿; 목차; 개요; 소개;
        서론;
        서문; 들어가며; 총칙; 요약; 결론; 머리말; 차례; 배경; 목적; 정의; 부록; 부칙; 표지; 비고; 주의; 참고;
        참고문헌;
        시트; 제목; 초안""",
}
"""Names of parts of documents, by language, separated by semicolons. They are headings or running titles in any
document. Numbers around them and accents are ignored."""


UNNAMED = """
    untitled; untitled document; untitled spreadsheet; untitled presentation; untitled form; unbenannt; namenlos;
    ohne titel; unbenanntes dokument; unbenannte tabelle; unbenannte präsentation; sans titre; document sans titre;
    feuille de calcul sans titre; sin título; documento sin título; senza titolo; documento senza titolo; sem título;
    documento sem título; bez tytułu; bez nazwy; dokument bez tytułu; dokument bez nazwy; naamloos; naamloos document;
    başlıksız; adsız; başlıksız doküman; bez názvu; dokument bez názvu; namnlös; namnlöst dokument; nimetön; névtelen;
    fără titlu; без назви; без імені; документ без назви; без названия; без имени; без заголовка;
    документ без названия; новый документ; новий документ; без заглавие; χωρίς τίτλο; έγγραφο χωρίς τίτλο; ללא שם;
    ללא כותרת; מסמך ללא שם; مستند بدون عنوان; بدون عنوان; غير معنون; ไม่มีชื่อ; เอกสารไม่มีชื่อ; không có tiêu đề;
    无标题; 无标题文档; 未命名; 未命名文档; 無標題文件; 未命名文件; 無題; 無題ドキュメント; 名称未設定; 제목 없음;
    제목 없는 문서; 무제;
    document; dokument; documento; документ; belge; έγγραφο; מסמך; مستند; เอกสาร; 文档; 文件; 文書; 문서;
    book; mappe; classeur; libro; cartel; pasta; zeszyt; skoroszyt; kitap; книга; βιβλίο; חוברת; المصنف; สมุดงาน;
    工作簿; 活頁簿;
    통합 문서; tabelle; feuil; лист; аркуш; layout;
    presentation; präsentation; présentation; presentación; presentazione; apresentação; prezentacja; sunu;
    презентація;
    презентация; παρουσίαση; מצגת; عرض تقديمي; งานนำเสนอ; 演示文稿; 簡報; プレゼンテーション; 프레젠테이션;
    powerpoint presentation;
    powerpoint präsentation; présentation powerpoint; presentación de powerpoint; presentazione di powerpoint;
    presentazione standard di powerpoint; apresentação do powerpoint; prezentacja programu powerpoint;
    powerpoint presentatie; powerpoint sunusu; prezentace aplikace powerpoint; powerpoint presentasjon;
    powerpoint præsentation; powerpoint bemutató; prezentare powerpoint; презентація powerpoint;
    презентация powerpoint;
    παρουσίαση του powerpoint; מצגת של powerpoint; عرض تقديمي في powerpoint; งานนำเสนอ powerpoint;
    powerpoint 演示文稿;
    powerpoint 簡報; powerpoint プレゼンテーション; powerpoint 프레젠테이션
"""
"""Titles that programs give to a new document, separated by semicolons. Numbers after them are ignored."""


_WORD = re.compile(r"[^\W_]+")


def _folded_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return _WORD.findall("".join(letter for letter in plain if not unicodedata.combining(letter)))


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case without accents; of a text too long for a title, only the first
    words."""
    return _folded_words(text[:LONGEST_TITLE])


def _word_list(words: str) -> frozenset[str]:
    return frozenset(_folded_words(words))


SECTIONS = _word_list(
    """
    part section chapter article appendix annex schedule exhibit attachment clause lesson unit module step page sheet
    частина розділ глава стаття пункт додаток часть раздел статья приложение
    teil abschnitt kapitel artikel anhang anlage partie chapitre annexe parte seccion capitulo articulo anexo
    czesc rozdzial artykul zalacznik sezione capitolo articolo allegato deel hoofdstuk bijlage cast oddil kapitola
    clanek priloha secao artigo κεφάλαιο ενότητα άρθρο παράρτημα bölüm madde פרק סעיף נספח الفصل فصل الباب المادة مادة
    ملحق บทที่ หมวด ข้อ avsnitt bilaga afsnit bilag luku liite fejezet szakasz melleklet capitol sectiune anexa член
    """
)
"""Words of all these languages that begin the heading of a section together with a number."""

KINDS = _word_list(
    """
    report reports handbook manual guide guidebook policy policies procedure procedures plan plans statement
    statements invoice receipt letter memo memorandum contract agreement lease offer quote quotation proposal
    presentation newsletter bulletin notice announcement certificate application form specification specifications
    datasheet catalogue catalog brochure leaflet flyer instruction instructions release results questionnaire survey
    checklist transcript filing prospectus budget forecast schedule timetable resume cv document review update bill
    order terms conditions
    звіт звіти посібник довідник інструкція інструкції порядок правила положення політика план рахунок квитанція
    договір угода оферта пропозиція презентація бюлетень повідомлення довідка заява анкета специфікація каталог наказ
    розпорядження акт отчет руководство инструкция правила политика договор соглашение письмо заявление приказ счет
    bericht handbuch anleitung richtlinie rechnung quittung brief vertrag vereinbarung angebot prasentation
    mitteilung bescheinigung antrag formular jahresbericht quartalsbericht geschaftsbericht bedienungsanleitung
    benutzerhandbuch mitarbeiterhandbuch satzung
    rapport manuel guide politique facture recu lettre contrat accord convention devis avis certificat formulaire
    reglement informe guia politica factura recibo carta contrato acuerdo convenio oferta presupuesto presentacion
    boletin aviso certificado solicitud formulario folleto instrucciones reglamento
    raport sprawozdanie podrecznik poradnik polityka procedura faktura rachunek pismo umowa porozumienie
    prezentacja biuletyn zawiadomienie zaswiadczenie wniosek formularz broszura instrukcja regulamin
    rapporto relazione manuale guida fattura ricevuta lettera contratto accordo offerta presentazione
    bollettino avviso certificato domanda modulo opuscolo istruzioni regolamento
    """
)
"""Words of all these languages that name a kind of document and say nothing about its subject."""

_NEAR_KINDS = _word_list(
    """
    annual quarterly monthly weekly daily interim final current press data sheet earnings user users owner owners
    employee employees staff operating installation service technical company corporate benefit benefits standard
    fiscal year full half first second third fourth quarter
    річний квартальний місячний щорічний остаточний працівника користувача годовой
    annuel trimestriel mensuel anual trimestral mensual roczny kwartalny annuale trimestrale
    a an the of for to and or in on s our your der die das des und fur zur zum le la les l de du d et pour el los
    las y del para i w z na do dla il lo gli e di della per та і й для про на за з у и о по
    """
)
"""Words next to the name of a kind that say nothing about the subject either."""

_ASIDES = _word_list("or and yes no mark one x to from re by und oder ja nein ou et oui non y o si і та або так ні")
"""Words that appear alone on forms and covers."""

# ---------------------------------------------------------------- useless titles


_PROGRAM = re.compile(r"^(microsoft (word|excel|powerpoint)|writer|calc|impress|openoffice[^ ]*)\s*-\s*", re.IGNORECASE)
_JUNK = re.compile(
    r"(untitled|unknown|no ?title|title|document|presentation|powerpoint presentation|book|sheet|"
    r"новый документ|без (назви|названия)|документ|презентація( powerpoint)?|"
    r"(untitled|document|doc|book|presentation|sheet|tabelle|feuil|лист|аркуш|документ)[ _-]?\(?\d*\)?|"
    r"\(?anonymous\)?|none|null|[\d\W_]*+(?:[^\W\d_][\d\W_]*+)?)",
    re.IGNORECASE,
)
_FILE_SUFFIX = re.compile(
    r"\.(pdf|docx?|docm|dotx?|odt|ott|rtf|xlsx?|xlsm|xltx?|ods|pptx?|ppsx?|potx?|odp|html?|xhtml|aspx?|php|md|txt|tex|"
    r"dvi|e?ps|ai|psd|indd|qxd|pmd|cdr|vsdx?|pub|wpd|wps|pages|numbers|key|csv|tsv|eml|msg|exe|dll|com|bat|tmp|bak|"
    r"jpe?g|png|tiff?|gif|bmp|zip|xml|json|dwg|fm|frm|book)$",
    re.IGNORECASE,
)
_ROMAN = re.compile(r"[ivxlc]+")
_NUMBER = re.compile(r"\d+|[ivxlc]+|[^\W\d_]")
_DIGITS = "0123456789"
_NUMBERED = re.compile(
    r"(?:\d{1,2}(?:\.\d{1,3}){1,8}\.?|\d{1,2}[.)]|[IVX]{1,5}[.)]|[A-ZА-ЯІЇЄҐ]\)|§+ ?\d+[.)]?|1)\s|"
    r"第[\d一二三四五六七八九十百〇零]{1,4}[章条條節节部编編篇回]|제 ?\d{1,4} ?[장절편조관]"
)


def file_stem(uri: str) -> str:
    """Return the name of a file without its folders and its last suffix."""
    name = uri.replace("\\", "/").rsplit("/", 1)[-1]
    stem = name.rsplit(".", 1)[0] if "." in name.lstrip(".") else name
    stem = stem.removesuffix(_MAP_SUFFIX)
    return clean_text(stem) or clean_text(name) or "document"


def _phrases(listed: str) -> frozenset[str]:
    return frozenset(" ".join(_folded_words(phrase)) for phrase in listed.split(";"))


@cache
def _parts() -> frozenset[str]:
    return frozenset().union(*map(_phrases, PARTS.values()))


@cache
def _generic_names() -> frozenset[str]:
    return _phrases(UNNAMED)


def _is_unnamed(title: str) -> bool:
    words = [word for word in (word.rstrip(_DIGITS) for word in _words(title)) if word]
    return " ".join(words) in _generic_names()


def _fold(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def names_a_part(text: str) -> bool:
    """Say whether a text names one or more parts, such as `Overview`, `2. Summary`, `Part II` or `Sheet1`, or is a
    date."""
    words = [word for word in (word.rstrip(_DIGITS) for word in _words(text)) if word]
    while words and " ".join(words) not in _parts() and _NUMBER.fullmatch(words[-1]):
        words.pop()
    if len(words) > 1 and _ROMAN.fullmatch(words[0]):
        del words[0]
    if words and (" ".join(words) in _parts() or _parts().issuperset(words)):
        return True
    return iso_date(text) is not None


def heads_a_section(text: str) -> bool:
    """Say whether a heading begins with the number of a section."""
    if _NUMBERED.match(text):
        return True
    words = _words(text)[:2]
    return len(words) == 2 and words[0] in SECTIONS and bool(_NUMBER.fullmatch(words[1]))


def names_a_kind(title: str) -> bool:
    """Say whether a title only names a kind of document or a part of it, such as `Annual report`, `Form 10-K` or
    `Overview of benefits`."""
    words = {word for word in _words(title) if word not in _NEAR_KINDS and not _NUMBER.fullmatch(word)}
    return all(word in KINDS or word in _parts() for word in words) and (
        bool(words) or not _NEAR_KINDS.issuperset(_words(title))
    )


def is_junk_title(title: str, uri: str) -> bool:
    """Say whether the title in a file's properties is useless: a placeholder, the name of a part, or a file name."""
    bare = _PROGRAM.sub("", title)
    if _JUNK.fullmatch(bare) or _is_unnamed(bare) or _FILE_SUFFIX.search(bare) or names_a_part(bare):
        return True
    return _fold(bare) == _fold(file_stem(uri))


_BETWEEN = re.compile(r"(?<=\s)[|·•»–—-](?=\s)|::")
"""Pattern of separators between the name of a page and the name of its site."""


def _names_a_site(title: str) -> bool:
    """Say whether the title of a web page names only its site, with or without a part of it: `Home | Town of Ely`."""
    parts = _BETWEEN.split(title)
    return len(parts) > 1 and (names_a_part(parts[0]) or names_a_part(parts[-1]))


# ---------------------------------------------------------------- the file's name beside a title


_EDITION = re.compile(
    r"(?<![^\W_])(?:(?:19|20)\d\d(?![^\W_qhk])|(?:fy|cy) ?-?\d{2,4}(?![^\W_])|q[1-4](?![^\W_])|v\d+(?![^\W_]))",
    re.IGNORECASE,
)
"""Pattern of a year, quarter or version in a file's name."""


def with_file_name(title: str, uri: str, declared: bool = False) -> str:
    """Return the title, with the file's name in parentheses if other documents are likely to have the same title.

    A missing year does not matter in a title that the author `declared`.
    """
    stem = file_stem(uri)
    said = set(_words(title))
    missing = {edition.casefold() for edition in _EDITION.findall(stem)} - said
    tells = bool(missing and not declared) or (names_a_kind(title) and not said.issuperset(_words(stem)))
    return _title_beside(title, stem) if tells else title


def _title_beside(title: str, stem: str) -> str:
    stem = stem[: LONGEST_TITLE // 2]
    return f"{title[: LONGEST_TITLE - len(stem) - 3]} ({stem})"


def without_file_name(title: str, uri: str) -> str:
    """Return a title without the file's name that `with_file_name` added to it."""
    return title.removesuffix(f" ({file_stem(uri)[: LONGEST_TITLE // 2]})")


def begins_title(heading: str, title: str) -> bool:
    """Say whether a heading is the title, or the title without the file's name."""
    return heading == title or title.startswith(f"{heading} (")


# ---------------------------------------------------------------- the cover


OPENING_BLOCKS = 40
"""Blocks of the first page that are searched for a title."""
COVER_CHARACTERS = 400
"""Most characters of a cover page; a page with more is a page of text."""
LONGEST_NAME = 200
"""Most characters of a title found in the text."""
MOST_WORDS, MOST_IDEOGRAPHS = 30, 60
"""Most words of a title found in the text, or most letters of one in a script without spaces."""
SENTENCE_WORDS = 6
"""Fewest words of a text that counts as a sentence if it ends with a full stop. `Apple Inc.` is not a sentence."""
LARGER = 1.15
"""Least ratio of a title's size to the size of its page's text."""
ALIKE = 0.88
"""Least size of a further line of a title on a page of text, relative to the title's largest line."""
ALIKE_ON_A_COVER = 0.6
"""Least size of a further line of a title on a cover, relative to the title's largest line."""
MOST_LINES = 5
"""Most lines of a title on a cover."""
LEAST_WORDS = 3
"""Fewest words of a title that is made of lines that do not look like one."""
LAST_PAGE = 2
"""Last page on which a heading may still be the title, if no prose is above it."""
_ADDRESS = re.compile(r"://|\bwww\.|\w\.[a-z]{2,4}/\w")
_INNER_STOP = re.compile(r"[^\W\d_]{3}[.!?]\s+[^\W\d_]")
_IDEOGRAPH = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_CLOSED = (".", "…", ";", ":", ",", "。", "；", "：", "，")


def _is_sentence(text: str) -> bool:
    if len(text) > LONGEST_NAME:
        return True
    words = text.split()
    if len(words) > MOST_WORDS or len(_IDEOGRAPH.findall(text)) > MOST_IDEOGRAPHS:
        return True
    if text.endswith(("。", "；", "，")) and len(text) > SENTENCE_WORDS:
        return True
    if len(words) < SENTENCE_WORDS:
        return False
    return text.endswith(_CLOSED) or text[:1].islower() or (len(words) > 2 * SENTENCE_WORDS and _stops_within(text))


def _stops_within(text: str) -> bool:
    return _INNER_STOP.search(text) is not None


def _is_name(element: Element) -> bool:
    """Say whether a block may be a title: it has at least two letters, and is not a sentence, the name of a part or
    text in parentheses."""
    text = element.text
    return (
        element.kind in ("heading", "paragraph")
        and sum(map(str.isalpha, text[:LONGEST_NAME])) >= 2
        and not text.startswith("(")
        and "@" not in text
        and not _ADDRESS.search(text)
        and not _ASIDES.issuperset(_words(text))
        and not _JUNK.fullmatch(text[:LONGEST_NAME])
        and not _is_sentence(text)
        and not names_a_part(text)
        and not heads_a_section(text)
    )


def _size(element: Element) -> float:
    """Return the height of the lines of a block; 0 if its lines have no boxes, or are rotated."""
    heights = [place.box.y1 - place.box.y0 for place in element.places[:OPENING_BLOCKS] if place.box]
    lengths = [place.box.x1 - place.box.x0 for place in element.places[:OPENING_BLOCKS] if place.box]
    return median(heights) if heights and max(lengths) >= min(heights) else 0


def _opening(elements: Iterable[Element]) -> Iterator[Element]:
    """Yield the blocks above the first section."""
    named = False
    for element in elements:
        if element.kind == "heading" and (heads_a_section(element.text) or (named and names_a_part(element.text))):
            return
        named = named or _is_name(element)
        yield element


def _from_cover(elements: Sequence[Element]) -> str | None:
    """Return the largest text of a PDF's first page, with adjacent lines of similar size, and lines of similar size
    further down before the first sentence."""
    page = [element for element in elements[: 5 * OPENING_BLOCKS] if element.page_start == 1 and element.text.strip()]
    page = [element for element in page if element.kind not in ("page_header", "page_footer", "figure")]
    opening = list(_opening(page[:OPENING_BLOCKS]))
    sizes = [_size(element) if _is_name(element) else 0 for element in opening]
    largest = max(sizes, default=0)
    if largest <= 0:  # a box whose sides are the wrong way round has a negative height
        return None
    is_cover = sum(len(element.text) for element in page) <= COVER_CHARACTERS
    is_cover = is_cover and not any(_is_sentence(element.text) for element in page)
    usual = median(size for size in map(_size, page) if size)
    if not is_cover and largest < LARGER * usual:
        return None
    least = largest * (ALIKE_ON_A_COVER if is_cover else ALIKE)
    large = [at for at, size in enumerate(sizes) if size >= ALIKE * largest]
    telling = [at for at in large if not names_a_kind(opening[at].text)]
    first = last = (telling or large)[0]
    while first > 0 and sizes[first - 1] >= least and last - first < MOST_LINES:
        first -= 1
    while last + 1 < len(sizes) and sizes[last + 1] >= least and last - first < MOST_LINES:
        last += 1
    lines = opening[first : last + 1]
    for at in (at for at in telling if at > last):
        if len(lines) == MOST_LINES or any(_is_sentence(between.text) for between in opening[last:at]):
            break
        lines.append(opening[at])
    return " – ".join(dict.fromkeys(element.text for element in lines))


def _from_sheet(elements: Sequence[Element]) -> str | None:
    """Return the title row above the first table of a workbook, or else the name of its first sheet."""
    text = [element for element in elements if element.kind not in ("figure", "break")]
    sheet = next((element for element in text if element.kind == "heading"), None)
    for element in text:
        names_a_sheet = element.kind == "heading" and (element.level or 1) == 1
        if element.kind not in ("heading", "paragraph", "caption"):
            break
        if not names_a_sheet and _is_name(element):
            return element.text
    return sheet.text if sheet and _is_name(sheet) else None


def _from_headings(elements: Sequence[Element]) -> str | None:
    """Return the heading that is above all others. A heading on the level of a section or part is a section too; a part
    without text is ignored."""
    text = [element for element in elements if element.kind not in ("figure", "page_header", "page_footer", "break")]
    headings = [element for element in text if element.kind == "heading"]
    bare = {id(one) for one, after in pairwise(text) if one.kind == after.kind == "heading" and _is_above(one, after)}
    prose = next((element.index for element in text if _is_sentence(element.text)), len(elements))
    for level in (1, None):
        for element in headings:
            page = element.page_start or 1
            if page > (LAST_PAGE if level else 1) or (page > 1 and element.index > prose):
                continue
            if level in (None, element.level) and not _JUNK.fullmatch(element.text) and not _is_sentence(element.text):
                if heads_a_section(element.text) or names_a_part(element.text):
                    if id(element) in bare:
                        continue
                    break
                return element.text
    return None


def _is_above(heading: Element, after: Element) -> bool:
    return (after.level or 1) <= (heading.level or 1)


def _from_first_lines(elements: Sequence[Element]) -> str | None:
    """Return the lines above the first section of a text if they may be a title: as many lines as are needed for
    LEAST_WORDS words."""
    text = [element for element in elements if element.kind not in ("figure", "page_header", "page_footer", "break")]
    if not any(element.kind == "heading" for element in text[1:]):
        return None
    lines: list[str] = []
    for element in text[:MOST_LINES]:
        if element.kind != "paragraph" or not _is_name(element):
            return None
        lines.append(element.text)
        if sum(len(line.split()) for line in lines) >= LEAST_WORDS or _IDEOGRAPH.search(element.text):
            return " – ".join(lines)
    return None


# ---------------------------------------------------------------- title


def choose_title(doc: RawDocument, declared: str, elements: Sequence[Element]) -> tuple[str, bool]:
    """Return the title, and whether it is only the file's name. Candidates in order: the listing's title, the file's
    own title unless it is useless, the cover, the heading above all others, the first line, the name."""
    listed = clean_text(doc.title or "")
    if listed:
        return listed[:LONGEST_TITLE], False
    if declared and doc.media_type == _MAIL and not _JUNK.fullmatch(declared[:LONGEST_TITLE]):
        return declared[:LONGEST_TITLE], False
    declared = declared[:LONGEST_TITLE]
    of_site = doc.media_type == _PAGE and _names_a_site(declared)
    if declared and not of_site and not is_junk_title(declared, doc.uri):
        return with_file_name(declared, doc.uri, declared=True), False
    found = _found_title(doc, elements)
    if found:
        return with_file_name(found[:LONGEST_TITLE], doc.uri), False
    stem = file_stem(doc.uri)
    if of_site:
        return _title_beside(declared, stem), False
    first = None if doc.media_type in _SHEETS else _from_first_lines(elements)
    return (_title_beside(first, stem), False) if first else (stem[:LONGEST_TITLE], True)


def _found_title(doc: RawDocument, elements: Sequence[Element]) -> str | None:
    if doc.media_type in _SHEETS:
        return _from_sheet(elements)
    cover = _from_cover(elements) if doc.media_type == _PDF else None
    return cover or _from_headings(elements)
