"""Checks whether the match of a pattern is really personal data, so that harmless texts stay.

The checks test check digits, issuers, dates, and the words around a match. A check takes the text of the match, or
the whole text and the place of the match.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import date


def is_id_card(text: str) -> bool:
    """Return whether `text` is a Chinese identity number: 18 characters with their check character, or the old 15 digits."""
    digits = re.sub(r"[^0-9X]", "", text.upper())
    if digits[:2] not in _PROVINCES:
        return False
    birth = digits[6:14] if len(digits) == 18 else f"19{digits[6:12]}"
    try:
        born = date(int(birth[:4]), int(birth[4:6]), int(birth[6:]))
    except ValueError:
        return False
    if not 1850 <= born.year <= 2100:
        return False
    if len(digits) == 15:
        return True
    total = sum(int(digit) * pow(2, 17 - place, 11) for place, digit in enumerate(digits[:17]))
    return "10X98765432"[total % 11] == digits[17]


def is_luhn(text: str) -> bool:
    """Return whether the digits of `text` pass the check of bank cards (Luhn) and are not all the same."""
    digits = [int(char) for char in text if char.isdigit()]
    if not 13 <= len(digits) <= 19 or len(set(digits)) < 2:
        return False
    doubled = [digit if place % 2 == 0 else digit * 2 - 9 * (digit > 4) for place, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def is_card(text: str) -> bool:
    """Return whether `text` is a card number that an issuer may give out: first digits, length and check digit."""
    digits = re.sub(r"\D", "", text)
    return is_luhn(digits) and any(
        len(digits) in lengths and low <= digits[: len(low)] <= high for low, high, lengths in _ISSUERS
    )


def is_iban(text: str) -> bool:
    """Return whether `text` is an international bank account number: the length of its country, and check digits (ISO 7064)."""
    plain = re.sub(r"[ -]", "", text).upper()
    if len(plain) != _IBAN_CHARS.get(plain[:2]):
        return False
    moved = plain[4:] + plain[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def is_far_address(text: str) -> bool:
    """Return whether `text` is an IP address of another machine. `127.0.0.1` (this machine) and `0.0.0.0` (no machine) are
    not.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if address.version == 6 and text.count(":") == 2:
        # `1::2` is far more often a slice, and `bad::cafe` a name in code, than an address.
        return len(text.split(":")[0]) >= 3 and any(char.isdigit() for char in text)
    return not (address.is_loopback or address.is_unspecified or text.startswith(("255.", "::")))


def is_number_with_prefix(text: str) -> bool:
    """Return whether `text` has as many digits as an international phone number, 8 to 15."""
    return 8 <= sum(char.isdigit() for char in text) <= 15


def is_labelled_number(text: str) -> bool:
    """Return whether `text`, after the word `phone`, may be a phone number: 7 to 15 digits, not a date and not a decimal."""
    digits = re.sub(r"\D", "", text)
    return (
        7 <= len(digits) <= 15 and len(set(digits)) > 1 and _DATE.match(text) is None and _DECIMAL.match(text) is None
    )


def is_no_date(text: str) -> bool:
    """Return whether `text`, digits after the label of a number, is something other than a date."""
    return _DATE.match(text) is None


def is_social_number(text: str) -> bool:
    """Return whether `text` is a US social security number that may have been given out."""
    digits = re.sub(r"\D", "", text)
    area, group, serial = digits[:3], digits[3:5], digits[5:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def is_written_with_persons(text: str, begin: int, end: int) -> bool:
    """Return whether the words around `text[begin:end]` are about a person's documents."""
    return _PAPERS.search(_beside(text, begin, end)) is not None


def is_mac_address(text: str) -> bool:
    """Return whether `text` is the address of one network card. Addresses for no card (`00:00:…`) and for all cards
    (`ff:ff:…`) are not.
    """
    digits = re.sub(r"[^0-9a-f]", "", text.lower())
    return len(digits) == 12 and len(set(digits)) > 1


def is_written_with_devices(text: str, begin: int, end: int) -> bool:
    """Return whether `text[begin:end]` has both letters and digits, or the words around it are about devices."""
    found = text[begin:end]
    if re.search(r"[A-Fa-f]", found) and re.search(r"\d", found):
        return True
    return _DEVICES.search(_beside(text, begin, end)) is not None


def _beside(text: str, begin: int, end: int) -> str:
    """Return the words around a place, of its line."""
    before = text[max(0, begin - _BESIDE_CHARS) : begin].rpartition("\n")[2]
    return f"{before} {text[end : end + _BESIDE_CHARS].partition(chr(10))[0]}"


def is_messenger_name(text: str) -> bool:
    """Return whether `text`, after the label of a messenger, may be an account name: it contains no word of forms or
    adverts.
    """
    return not _MESSENGER_WORDS.intersection(re.findall(r"[a-z]+", text.lower()))


def is_plate(text: str) -> bool:
    """Return whether `text`, after the words `number plate`, may be a plate: 5 to 10 letters and digits, both of them
    present.
    """
    plain = re.sub(r"[ -]", "", text)
    return 5 <= len(plain) <= 10 and any(map(str.isdigit, plain)) and any(map(str.isalpha, plain))


def is_document_number(text: str) -> bool:
    """Return whether `text`, after the words `driving licence`, may be its number: four digits or more."""
    return sum(char.isdigit() for char in text) >= 4


def is_hard_to_guess(text: str) -> bool:
    """Return whether `text`, after `password:` and the like, looks like a secret.

    A text looks like a secret if it has a digit, or if it has letters of both cases and another character.
    """
    if re.search(r"\d", text):
        return True
    mixed = re.search(r"[a-z]", text) and re.search(r"[A-Z]", text)
    return bool(mixed and re.search(r"[^A-Za-z0-9.]", text))


def is_quoted_secret(text: str) -> bool:
    """Return whether `text`, quoted words after `password` and the like, is a secret.

    A text is a secret if it has a digit, or if it is one word with letters of both cases and another character. A sentence
    about passwords and a variable of a template do not count.
    """
    words = re.findall(r"[a-z]+", text.lower())
    if (len(words) > 1 and not _FORM_WORDS.isdisjoint(words)) or _FORM_SIGNS.search(text) or text[0] in "$%{<":
        return False
    return is_hard_to_guess(text) if re.search(r"\s", text) is None else has_digit(text)


def is_mixed(text: str) -> bool:
    """Return whether `text` has letters of both cases and digits."""
    return all(re.search(signs, text) for signs in (r"[a-z]", r"[A-Z]", r"\d"))


def is_written_with_keys(text: str, begin: int, end: int) -> bool:
    """Return whether the words around `text[begin:end]`, also those in the lines around it, are about keys."""
    return _KEYS.search(text[max(0, begin - _NEAR_KEYS) : begin] + " " + text[end : end + _NEAR_KEYS]) is not None


def has_digit(text: str) -> bool:
    """Return whether `text` has a digit."""
    return any(map(str.isdigit, text))


def is_like_a_password(text: str) -> bool:
    """Return whether `text`, a word in prose, looks like a password.

    It has letters with digits or other characters among them, and is not a date, a version, a file or an address.
    """
    plain = text.rstrip(".!?:")
    if re.search(r"[A-Za-z]", plain) is None or re.search(r"[/\\@]|\.[a-z]{2,4}\Z|\Av?\d+[.\d-]*[a-z]{0,3}\Z", plain):
        return False
    return is_hard_to_guess(plain) and re.fullmatch(r"[A-Za-z]+(?:-[A-Za-z]+)*", plain) is None


def is_no_form_word(text: str) -> bool:
    """Return whether `text`, letters after `password:`, contains no word that forms, types and documentation use there."""
    words = re.findall(r"[a-z]+", text.lower())
    return not _FORM_WORDS.intersection(words)


def is_no_prose(text: str) -> bool:
    """Return whether `text` may be a row of nouns, as passphrases are, because it contains no word that only sentences have."""
    return not _SENTENCE_WORDS.intersection(re.findall(r"[a-z]+", text.lower()))


_LISTED_FORM_WORDS = """
auto based case change changed char chars characters confirm default digits empty encrypted entered expired field forgot
generated hash hashed hidden input invalid length less letters management manager min missing must need needed new none not
null only optional password passwords plain policy protected required reset safe secret secure see sensitive set shared
something stored str string text too type undefined unknown use used using value varchar weak wrong your
"""
_LISTED_SENTENCE_WORDS = """
and any are ask can choose for from has have here into its must need not only our required shall that the their them then
they this used was what when which who will with words you your
"""
_FORM_SIGNS = re.compile(
    r"[位个]|字符|必填|选填|请输入|不能|长度|至少|数字|字母|大写|小写|密码|错误|正确|为空|包含|修改|忘记|重置|过期"
)
_KEYS = re.compile(r"(?i)aws|\b(?:akia|asia)|secret|access.?key|amazon|密钥")
_NEAR_KEYS = 120
_LISTED_MESSENGER_WORDS = """
account and api app apps channel client config download for group handler input login mini moments name none not null number
official optional pay payment program required sdk service string text the undefined unknown use used user username using varchar
version web work
"""
_MESSENGER_WORDS = frozenset(_LISTED_MESSENGER_WORDS.split())
_BESIDE_CHARS = 60
_PAPERS = re.compile(
    r"(?i:\b(?:social|ssn|itin|tin|tax(?:payer)?|w-?[29]|1099|dob|born|birth|passport|dependents?|spouse|applicant|employee|patient|"
    r"payroll|identity|id)\b)|社会?[安保]|税号|身份|报税"
)
_DEVICES = re.compile(
    r"(?i:\b(?:mac|bssid|hwaddr|ether(?:net)?|wi-?fi|bluetooth|router|nic|lan|device|arp|dhcp)\b)|地址|网卡|设备|路由|蓝牙"
)
_FORM_WORDS = frozenset(_LISTED_FORM_WORDS.split())
_SENTENCE_WORDS = frozenset(_LISTED_SENTENCE_WORDS.split())
_DATE = re.compile(r"(?:19|20)\d{2}[-./ ]?(?:0[1-9]|1[0-2])[-./ ]?(?:0[1-9]|[12]\d|3[01])(?!\d)")
_DECIMAL = re.compile(r"\d{1,3}(?:\.\d+)?$")
_PROVINCES = frozenset(
    str(code)
    for first, last in ((11, 15), (21, 23), (31, 37), (41, 46), (50, 54), (61, 65), (71, 71), (81, 83))
    for code in range(first, last + 1)
)
_ISSUERS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("4", "4", (13, 16, 19)),
    ("51", "55", (16,)),
    ("2200", "2204", (16, 19)),
    ("2221", "2720", (16,)),
    ("34", "34", (15,)),
    ("37", "37", (15,)),
    ("300", "305", (14, 16)),
    ("36", "36", (14, 16)),
    ("38", "39", (14, 16)),
    ("3528", "3589", (16, 17, 18, 19)),
    ("50", "50", (13, 14, 15, 16, 17, 18, 19)),
    ("56", "58", (13, 14, 15, 16, 17, 18, 19)),
    ("60", "60", (16, 17, 18, 19)),
    ("62", "62", (16, 17, 18, 19)),
    ("63", "67", (16, 17, 18, 19)),
    ("8171", "8171", (16, 19)),
    ("9558", "9558", (16, 19)),
)
"""First digits (from, to) and lengths of the cards of Visa, Mastercard, Mir, American Express, Diners, JCB, Maestro,
RuPay, Discover and UnionPay.
"""
_IBAN_LENGTHS = (
    "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 "
    "FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 "
    "LU20 LV21 LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 "
    "SC31 SD18 SE24 SI19 SK24 SM27 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20"
)
_IBAN_CHARS = {each[:2]: int(each[2:]) for each in _IBAN_LENGTHS.split()}
"""Lengths in the IBAN registry (ISO 13616), by country."""
