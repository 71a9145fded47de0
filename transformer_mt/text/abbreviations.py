"""What a full stop means after a word: abbreviations of some European languages, as plain data.

Knows words only; `sentences.py` decides where a sentence ends. A language not listed is read by the
English rules, which do little harm elsewhere: abbreviations only ever prevent a cut.
"""

from functools import lru_cache
from typing import NamedTuple


class Abbreviations(NamedTuple):
    """Lower-case words without their last full stop; `e.g` for e.g. and so on."""

    inside: frozenset[str]  # never the last word of a sentence
    numbered: frozenset[str]  # not the last word where a number follows: No. 5, Fig. 2
    anywhere: frozenset[str]  # may end one: it does before a word that begins sentences
    starters: frozenset[str]  # capitalised words that begin sentences and are no names


_BY_LANGUAGE = {
    "en": (
        "mr mrs ms mx dr prof st mt ft rev fr gen col maj capt cmdr lt sgt gov sen rep hon pres "
        "messrs mme mlle e.g i.e eg ie vs v cf viz approx ca c.f resp incl excl esp",
        "no nos nr p pp fig figs eq eqs sec sect ch chap vol art ver v jan feb mar apr jun jul "
        "aug sep sept oct nov dec",
        "etc inc ltd co corp bros jr sr al dept univ assn ave blvd rd ph.d u.s u.k u.n e.u d.c a.m "
        "p.m b.c a.d est",
        "The A An He She It They We You I This That These Those There Here In On At By For From To "
        "With But And Or So Yet If When While After Before Since Because As However My His Her "
        "Its Our Their Your What Why How Who Where Which No Not Yes Then Now Today Some Many Most",
    ),
    "de": (
        "hr hrn fr dr prof dipl ing z.b d.h u.a i.d.r s.o s.u z.t u.u o.g o.ä bzw vgl ggf evtl "
        "inkl exkl ca sog st lt mind max geb gest bspw einschl v.a",
        "nr nrn s abs art bd kap abb tab jan feb apr jun jul aug sept okt nov dez",
        "usw etc co str u.s.w u.v.m mio mrd tel v.chr n.chr jh",
        "Der Die Das Ein Eine Er Sie Es Wir Ihr Ich Man Und Aber Oder In Im Am An Auf Bei Mit Nach "
        "Von Vor Zu Wenn Als Da Dann Dies Diese Dieser Dieses Doch Hier Heute So Was Wer Wie Wo",
    ),
    "fr": (
        "m mm mme mmes mlle mlles dr pr me mgr st ste p.ex c.-à-d cf env éd",
        "p pp n no art fig chap vol t",
        "etc av apr bd j.-c",
        "Le La Les Un Une Des Il Elle Ils Elles On Nous Vous Je Tu Ce Cette Ces Mais Et Ou Dans En "
        "Sur Pour Par Si Quand Comme Puis Son Sa Ses",
    ),
    "es": (
        "sr sra sres sras srta dr dra d dña prof profa gral ud uds vd vds p.ej ej cf aprox",
        "p pág págs n núm art fig cap vol",
        "etc ee.uu av avda s.a",
        "El La Los Las Un Una Unos Unas Él Ella Ellos Ellas Yo Tú Nosotros Este Esta Pero Y O En "
        "De Con Por Para Si Cuando Como Su Sus",
    ),
    "it": (
        "sig sigg sig.ra sig.na dott dott.ssa prof ing avv arch on s ss p.es es cfr ca",
        "p pp pag n art fig cap vol",
        "ecc s.p.a a.c d.c",
        "Il Lo La I Gli Le Un Uno Una Egli Lui Lei Loro Noi Voi Io Questo Questa Ma E O In Di Con "
        "Per Se Quando Come Suo Sua",
    ),
    "pt": (
        "sr sra srs sras dr dra prof profa d exmo p.ex ex cf aprox",
        "p pág págs n núm art fig cap vol",
        "etc av s.a ltda",
        "O A Os As Um Uma Ele Ela Eles Elas Eu Nós Este Esta Mas E Em De Com Por Para Se Quando",
    ),
    "nl": (
        "dhr mevr mw dr drs ir ing prof mr bijv bv d.w.z o.a i.p.v t.o.v m.b.t ca vgl incl excl",
        "nr blz p fig art",
        "enz etc e.d co",
        "De Het Een Hij Zij Ze Wij We Ik Je U Dit Dat Deze Die Maar En Of In Op Aan Met Van Voor "
        "Als Toen",
    ),
}  # fmt: skip


@lru_cache
def abbreviations_of(language: str) -> Abbreviations:
    """The rules of a canonical language code; English for all that have none of their own."""
    words = _BY_LANGUAGE.get(language, _BY_LANGUAGE["en"])
    return Abbreviations(*(frozenset(some.split()) for some in words))
