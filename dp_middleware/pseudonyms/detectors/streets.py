"""Patterns of streets and houses, in the ways of several countries."""

from __future__ import annotations

from dp_middleware.pseudonyms.detectors.cues import alternatives

KINDS = (
    "(?i:street|st|avenue|ave|road|rd|boulevard|blvd|lane|ln|drive|dr|court|ct|square|sq|"
    "terrace|place|pl|parkway|pkwy|highway|hwy|way|crescent|close|row|grove|gardens?|gate|"
    "mews|hill|view|path|trail|circle|cir|broadway|plaza|alley|point|ridge|loop|quay|gdns|"
    "cres|ter|tce|terr|crt|dve|pde|bvd|cct|hts|pike|wharf|parade|esplanade|walk|rise|"
    "crossing|heights|mount)"
)
_FIRST = r"\b(?:\d{1,6}(?:\s?(?:bis|ter))?,?\s+){0,2}"  # numbers of houses before a street
_NEVER = (
    "a|an|and|are|as|at|be|been|but|by|can|did|do|for|from|had|has|have|he|her|him|his|i|if|in|is|it|its"
    "|me|my|no|not|on|or|our|she|so|that|the|their|them|they|this|to|was|we|were|will|with|you|your"
    "|avec|com|con|et|met|mit|que|und"
)
_WORD = (  # a full stop in it is that of an abbreviation, no end of a sentence
    rf"(?!(?i:{_NEVER})\b)(?:\p{{Lu}}\p{{L}}?\.|[\w'’-]*\p{{L}}[\w'’-]*)\s+"
)
_UNIT = (
    r"(?:,?\s+(?i:apt|apartment|suite|ste|unit|flat|floor|room)\b\.?\s?#?\w+"
    r"|,?\s#\w+)?"
)
_ROOM = (
    rf"(?:,?\s(?i:{alternatives('rooms')})\b\.?\s?\d+\w?\b"
    r"|,?\s(?:bajo|ático|entlo\.?|sótano)\b(?:\s\p{Lu}\b)?"
    r"|,?\s\d{1,2}(?:\.|er?|ème)?\s?(?:OG|Stock|Etage|étage|piso|andar|piano|piętro)"
    r"(?:\s(?:links|rechts|mitte))?)*"
)
_NAMED = r"\p{Lu}(?:[\p{L}'’-]|\.(?=[\p{L} ]))*"
_HOUSES = (
    rf"(?:{_NAMED}\s){{1,3}}"
    r"(?:House|Court|Tower|Lodge|Mansions?|Building|Cottage|Farm|Forge|Barn|Mill|Manor|Works|Wharf|Studios|Yard)\b"
)
_LINES = (
    r"(?:[ \t]*\n[ \t]*,?[ \t]*(?:(?:\p{Lu}[\p{L}.'’-]*|\d[\w-]*|nan|de|of|,)[ \t]?){1,4}"
    r"(?=\n|\Z)){0,5}"
)
_AND = r"(?:\s+(?:d[aeiou]s?|del|della|delle|dei|de la|de las|de los|des|du|la|le|les|l['’])?\s*"
_HOUSE = (  # "12 a" before another word is a number and a preposition
    r"\d{1,5}(?:[-/]\d{1,4})?"
    r"(?:[a-zA-Z](?!\w|\.\s?\d)|\s[a-zA-Z](?!\w|\.\s?\d|\s\p{L})|\s(?:bis|ter|hs)\b)?(?!\w)"
    r"(?:/\d{1,4}|\sm\.\s?\d+)?"
)

STREETS = (
    rf"(?<![\w.,/-])(?:\d{{1,4}}[\s/])?\d{{1,6}}[A-Za-z]?,?\s+(?:{_WORD}){{1,4}}?(?:{KINDS})\b\.?(?:\s(?:{KINDS})\b)?"
    rf"(?:\s(?:N|S|E|W|NE|NW|SE|SW)\b)?{_UNIT}{_LINES}",
    rf"(?<![\w.,/-])\d{{2,6}} (?!(?i:{alternatives('months')})\b)"
    rf"(?:{_NAMED} ){{1,2}}\d{{1,4}}\b{_UNIT}{_LINES}",
    rf"\b(?:{_NAMED} and )?{_NAMED} (?:\p{{Ll}}+ )?(?:u\.|rkp\.|utca|út|útja|tér|kapu) "
    rf"\d{{1,4}}\.?{_LINES}",
    r"(?i:\b(?:(?:unit|psc) \d+,? box \d+|us(?:s|ns|nv|cgc) [\p{L}'-]+)"
    r"(?:\s+[dfa]po,? a[aep] \d{5}))",
    rf"(?<![\w.,/-])\d{{1,6}}\s(?:[\p{{L}}\d.'’/-]+,?\s){{1,6}}?\s?(?i:apt|suite|ste)\b\.?\s?#?\d+\w?{_UNIT}{_LINES}",
    r"(?i:\b(?:the )?corner of )[^\n]{2,50}? and [\w'’]+(?: \p{Lu}[\w'’]*| (?i:street|court)s?)?",
    r"(?i:\b(?:P\.?\s?O\.?\s?|(?:rural route|rr|hc)\s\d+,?\s)?box\s+\d+\b)",
    rf"(?i:\b(?:apt|apartment|suite|ste|unit|flat)\b\.?\s#?(?:\d+\w?|(?-i:[A-H]))\b)(?:,?\s\d\d?/F)?(?:,?\s{_HOUSES})?",
    rf"\b(?:The\s)?{_HOUSES},\s(?:{_WORD}){{1,3}}?(?:{KINDS})\b",
    r"(?i:\b[\p{L}-]{3,}(?:stra(?:ss|ß)e|str\.|gasse|allee|straat|laan)\s)"
    rf"(?:\d{{1,4}}\w?|(?i:{alternatives('digits')}|{alternatives('tens')}))\b",
    rf"(?<![\w.,/-])\d{{1,4}}(?:\s?(?:bis|ter))?,?\s(?i:{alternatives('rues')})\s"
    r"(?:(?:d[aeu]s?|de l[ae]s?|l)[ '’])?\p{Ll}{3,}\b",
    rf"\b(?:on|at|in|near|off)\s(?P<v>(?!(?:{_NEVER}|main|same|other|whole|wrong|long|busy|high|every|"
    r"each|next|dirt|open|dead|left|right|one|any|which|fast)\b)\p{Ll}{3,}\s"
    r"(?:road|street|avenue|lane|crescent))\b",
    # the word for a street ends the name
    rf"\b(?:\p{{Lu}}[\p{{L}}-]*\s)?\p{{Lu}}[\p{{L}}-]*(?:stra(?:ss|ß)e|str\.|gasse|weg|platz|allee|ring|damm|ufer|markt|gade|"
    rf"gatan|vägen|vej|veien|straat|gracht|laan|plein|kade|singel|dijk|katu|kuja|tie)\s{_HOUSE}{_ROOM}",
    rf"\b(?:Am|An der|Auf der|Im|In der|Zum|Zur|Unter den|Alte[rn]?|Neue[rn]?)\s"
    rf"(?:{_NAMED}\s?){{1,3}}\s?{_HOUSE}",
    # or begins it
    rf"{_FIRST}(?i:{alternatives('rues')}){_AND}{_NAMED}){{1,4}}(?:\s{_HOUSE})?",
    rf"{_FIRST}(?i:{alternatives('streets_of')}){_AND}{_NAMED}){{1,4}}"
    rf"(?:,?\s(?:(?:n\.?[º°]\s?)?{_HOUSE}|s/n))?(?:,\s\d{{1,2}}[.ºª]+\s?\w*)?{_ROOM}",
    rf"{_FIRST}(?:(?:ul|al|os|pl)\.\s{_NAMED}|[Aa]leja|[Oo]siedle|[Uu]lic[ay]|[Pp]lac|Rynek)\s"
    rf"(?:{_NAMED}\s){{0,3}}{_HOUSE}{_ROOM}",
    # or a word for living stands before
    rf"(?i:\b(?:{alternatives('living')})\s(?:(?:{alternatives('within')})\s){{0,2}})"
    rf"(?P<v>{_NAMED}(?:\s[\p{{L}}.'’-]+){{0,5}}?,?\s{_HOUSE})",
)
"""As they are written."""
