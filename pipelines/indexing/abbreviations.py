"""Words before a full stop, and after one, that tell whether it ends a sentence; folded, without the last stop.

Data only: pipelines/indexing/boundaries.py says what each kind means. Acronyms with stops (`U.S.C`), initials and
short words of consonants alone (`Pvt`, `вул`) are known by their form and stand here only where they are of a kind.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


INTRODUCING = _words(
    """
    mr mrs ms messrs dr prof rev hon capt sgt gen maj lt col cmdr adm gov sen st mt p.o e.g i.e cf viz vs v approx ca
    incl fed civ crim evid stat supp cir r
    див напр проф акад доц ім т.ч в.о вул просп бул пров тов обл смт
    z.b d.h u.a bzw vgl ggf evtl insb inkl geb m mme mlle p.ex np tzn tj ul św inż mgr hab
    """
)
"""Something always follows: a name, an example."""

BEFORE_NUMBERS = _words(
    """
    no nos nr nrs art arts fig figs sec secs ch chap vol vols p pp par paras para cl reg ed tab table eq ref tel ext pub
    jan feb mar apr jun jul aug sep sept oct nov dec
    ст п пп ч гл розд рис табл том т вид с стор буд кв каб кім оф тел абз дод
    abs abb bd kap ziff jg s str nr rozdz poz ust
    """
)
"""They go on where a number, or a single letter that stands for one, follows."""

UNITS = _words(
    """
    kg g mg mcg ml l cl dl km m cm mm ft in lb lbs oz sq h hr hrs min mins sec secs s c f
    кг г мг мкг мл л км м см мм дм год хв сек с доб міс таб крап од р рр ст
    std sek stk mio eur zł
    """
)
"""After a number they end a sentence where a capital letter follows."""

CLOSING = _words("etc ін т.д т.п т.і н.е шт грн коп usw itd itp")
"""They end a list, and the sentence where a capital letter follows."""

NAMING = _words(
    """
    inc ltd co corp llc plc gmbh ag sa bros al jr sr esq ph.d m.d b.a m.a d.c a.m p.m est max min
    ave rd dept eds univ assn intl govt
    тис млн млрд лтд пвт ко корп ред зав нач гр кол сп
    ca zzgl resp tzn min
    """
)
"""They end a sentence only where the next word mostly begins one."""

STARTERS = _words(
    """
    the this that these those it its he she they we you i there here a an in on at by for from to of with without if
    when while where as after before although though since because however moreover furthermore additionally therefore
    thus also but and or nor so such some any all each every both many most other another his her their our your my
    what which who why how please note once during under unless until according then now no not
    це цей ця ці та і й а але або чи у в з із зі за на при для якщо після проте однак тому він вона воно вони ми ви не
    як до від під час через крім таким коли де щоб оскільки хоча перед без над про по протягом їх його її такі так
    деякі слід можливо усі всі кожен кожний жоден ні також якого який яка
    der die das ein eine er sie es wir ich im am an auf aus bei mit nach von vor zu zum zur für wenn da dies diese
    dieser dieses aber und oder doch nicht auch wie was wer wo
    le la les un une il elle ils elles nous vous ce cette ces cet dans à au aux pour par sur avec mais et ou si quand
    to ten ta te ci w we z ze o od przy nie jest jeśli gdy oraz ale po el los las una en con del lo gli nel
    """
)
"""Words that, with a capital letter, are far more often the first of a sentence than a name."""
