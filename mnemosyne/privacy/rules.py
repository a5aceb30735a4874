"""The shipped rules of redaction: patterns of personal data, of secrets, and of addresses inside a network.

The patterns are separate, with the checks that exclude harmless numbers, so that they can be read and tested by
themselves. Pure. A keyword before a pattern needs no word boundary, because Chinese has none: `邮箱a@b.cn` is an address.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

PII = "pii"
SECRETS = "secrets"
INTERNAL_URLS = "internal_urls"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One thing to look for. `group` of `pattern` is removed if `holds` (where given) accepts its text.

    `hints`: the pattern is tried only if the text contains one of these (lower case; empty: always). A match that
    overlaps one of the rule named `unless`, which comes before, is left to that rule.
    """

    name: str
    dictionary: str
    pattern: str
    holds: Callable[[str], bool] | None = None
    group: int = 0
    hints: tuple[str, ...] = ()
    unless: str = ""


def is_id_card(text: str) -> bool:
    """Return whether a text is a Chinese identity number: 18 signs with their check sign, or the old 15 digits."""
    digits = text.upper()
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
    """Return whether the digits of a text pass the check of bank cards (Luhn), and are not all alike."""
    digits = [int(char) for char in text if char.isdigit()]
    if not 13 <= len(digits) <= 19 or len(set(digits)) < 3:
        return False
    doubled = [digit if place % 2 == 0 else digit * 2 - 9 * (digit > 4) for place, digit in enumerate(reversed(digits))]
    return sum(doubled) % 10 == 0


def is_iban(text: str) -> bool:
    """Return whether a text is an international bank account number (check digits of ISO 7064)."""
    plain = re.sub(r"[ -]", "", text).upper()
    moved = plain[4:] + plain[:4]
    return 15 <= len(plain) <= 34 and int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def is_far_address(text: str) -> bool:
    """Return whether a text is an IP address of another machine, not of this one (`127.0.0.1`) or of none (`0.0.0.0`)."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if address.version == 6 and text.count(":") == 2:
        # `1::2` is far more often a slice, and `bad::cafe` a name in code, than an address.
        return len(text.split(":")[0]) >= 3 and any(char.isdigit() for char in text)
    return not (address.is_loopback or address.is_unspecified or text.startswith(("255.", "::")))


def is_number_with_prefix(text: str) -> bool:
    """Return whether a text has as many digits as an international phone number."""
    return 8 <= sum(char.isdigit() for char in text) <= 15


def is_social_number(text: str) -> bool:
    """Return whether a text is a US social security number that may have been given out."""
    area, group, serial = text[:3], text[4:6], text[7:]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def is_hard_to_guess(text: str) -> bool:
    """Return whether a value after `password:` and the like looks like a secret: it has digits, or letters of both
    cases and a sign.
    """
    if re.search(r"\d", text):
        return True
    mixed = re.search(r"[a-z]", text) and re.search(r"[A-Z]", text)
    return bool(mixed and re.search(r"[^A-Za-z0-9.]", text))


_PROVINCES = frozenset(
    str(code)
    for first, last in ((11, 15), (21, 23), (31, 37), (41, 46), (50, 54), (61, 65), (71, 71), (81, 83))
    for code in range(first, last + 1)
)
_SECRET_WORDS = (
    r"pass(?:word|wd|phrase|code)|pwd|secret|client[ _-]?secret|api[ _-]?key|apikey|access[ _-]?key(?:[ _-]?id)?|"
    r"secret[ _-]?key|private[ _-]?key|credential|pin(?: code)?|密码|口令|密钥|验证码|授权码"
)
_TOKEN_WORDS = r"(?:auth|access|refresh|session|id|bot|api)?[ _-]?token|session[ _-]?id|令牌"
SECRET_KEY = re.compile(rf"(?:.*[_ .-])?(?:{_SECRET_WORDS}|{_TOKEN_WORDS})", re.IGNORECASE | re.DOTALL)
"""Names of fields whose text is a secret whatever it looks like."""
_GIVEN = r"(?![a-z])[\"'”’]?[ \t]{0,3}(?:[:=：＝]|=>|是|为|is\b)[ \t]{0,3}[\"'“‘]?"
_VALUE = r"([^\s\"'“”‘’,;，。；、（）()<>\[\]{}\u2e80-\u9fff]"

RULES: tuple[Rule, ...] = (
    Rule(
        name="private_key",
        dictionary=SECRETS,
        pattern=r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r"(?s:.*?)(?:-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----|\z)",
        hints=("-----begin",),
    ),
    Rule(
        name="url_credentials",
        dictionary=SECRETS,
        pattern=r"(?i)\b[a-z][a-z0-9+.-]{1,30}://([^\s/@:]{0,200}:[^\s/@]{1,200})(?=@)",
        group=1,
        hints=("://",),
    ),
    Rule(
        name="url_token",
        dictionary=SECRETS,
        pattern=r"(?i)[?&#](?:access_token|auth_token|id_token|refresh_token|token|api_?key|apikey|key|secret|sig|signature|"
        r"x-amz-signature|x-amz-credential|password|passwd|pwd|auth|code|session(?:id)?)=([^&\s#\"'<>]{6,2000})",
        group=1,
        hints=("=",),
    ),
    Rule(
        name="jwt", dictionary=SECRETS, pattern=r"\beyJ[\w-]{8,4000}\.eyJ[\w-]{4,8000}\.[\w-]{0,2000}", hints=("eyj",)
    ),
    Rule(
        name="api_key",
        dictionary=SECRETS,
        pattern=r"(?<![A-Za-z0-9_-])(?:"
        r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}|LTAI[0-9A-Za-z]{12,30}|AKID[0-9A-Za-z]{13,40}|AIza[\w-]{35}|ya29\.[\w-]{20,400}|"
        r"gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|glpat-[\w-]{16,100}|xox[abeoprs]-[\w-]{10,250}|xapp-[\w-]{10,250}|"
        r"(?:sk|rk|pk|whsec)_(?:live|test)_\w{10,250}|whsec_[\w+/=]{16,100}|sk-[\w-]{16,250}|hf_[A-Za-z0-9]{16,100}|"
        r"npm_[A-Za-z0-9]{30,100}|pypi-[\w-]{32,400}|SG\.[\w-]{16,64}\.[\w-]{16,64}|dop_v1_[a-f0-9]{32,64}|"
        r"(?:AC|SK)[a-f0-9]{32}|[0-9]{8,10}:AA[\w-]{30,40}|eyJrIjoi[\w=-]{20,400}|gsk_\w{20,100}|xai-\w{20,150}|r8_\w{30,60})"
        r"(?![A-Za-z0-9])",
    ),
    Rule(
        name="auth_header",
        dictionary=SECRETS,
        pattern=r"(?i)(?<![a-z])(?:bearer|basic|apikey|token)[ \t]{1,4}([\w.~+/-]{16,4000}={0,3})",
        holds=is_hard_to_guess,
        group=1,
        hints=("bearer", "basic", "apikey", "token"),
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=rf"(?i)(?:(?<![a-z])|(?<=[a-z][_-]))(?:{_SECRET_WORDS}){_GIVEN}{_VALUE}{{4,500}})",
        holds=is_hard_to_guess,
        group=1,
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=rf"(?i)(?:(?<![a-z])|(?<=[a-z][_-]))(?:{_TOKEN_WORDS}){_GIVEN}{_VALUE}{{12,4000}})",
        holds=is_hard_to_guess,
        group=1,
        hints=("token", "session", "令牌"),
    ),
    Rule(
        name="email",
        dictionary=PII,
        pattern=r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9_%+][A-Za-z0-9._%+-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})\.){1,8}"
        r"(?:[A-Za-z]{2,24}|xn--[A-Za-z0-9-]{2,59})(?![A-Za-z0-9-])",
        hints=("@",),
        unless="url_credentials",
    ),
    Rule(
        name="id_card",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z])[1-8][0-9]{5}(?:[0-9]{11}[0-9Xx]|[0-9]{9})(?![0-9A-Za-z])",
        holds=is_id_card,
    ),
    Rule(
        name="bank_card",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z.])(?:[2-6][0-9]{3}(?:[ -]?[0-9]{4}){2,3}(?:[ -]?[0-9]{1,4})?"
        r"|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5})(?![0-9A-Za-z])",
        holds=is_luhn,
    ),
    Rule(
        name="iban",
        dictionary=PII,
        pattern=r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])",
        holds=is_iban,
    ),
    Rule(
        name="phone",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z.])(?:(?:\+|00)?86[ -]?|\(\+?86\)[ -]?)?1[3-9][0-9](?:[ -]?[0-9]{4}){2}(?![0-9A-Za-z])",
    ),
    Rule(
        name="phone",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z-])(?:(?:\(0[0-9]{2,3}\)[ -]?|0[0-9]{2,3}[ -])[2-9][0-9]{2,3}[ -]?[0-9]{4}"
        r"|[48]00-[0-9]{3}-[0-9]{4})(?![0-9-])",
    ),
    Rule(
        name="phone",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z])\+[1-9][0-9]{0,2}[ .-]?(?:\([0-9]{1,4}\)[ .-]?)?[0-9]{1,5}(?:[ .-]?[0-9]{2,5}){1,5}(?![0-9])",
        holds=is_number_with_prefix,
        hints=("+",),
    ),
    Rule(
        name="phone",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z.-])(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .-])[2-9][0-9]{2}[ .-][0-9]{4}"
        r"(?![0-9.-][0-9]|[0-9])",
    ),
    Rule(
        name="social_number",
        dictionary=PII,
        pattern=r"(?<![0-9-])[0-9]{3}-[0-9]{2}-[0-9]{4}(?![0-9-])",
        holds=is_social_number,
        hints=("-",),
    ),
    Rule(
        name="passport",
        dictionary=PII,
        pattern=r"(?i:passport|护照|通行证)[^0-9A-Za-z\n]{0,8}(?i:no\.?|number|id)?[^0-9A-Za-z\n]{0,6}([A-Za-z]{1,2}[0-9]{7,8})(?![0-9A-Za-z])",
        group=1,
        hints=("passport", "护照", "通行证"),
    ),
    Rule(
        name="plate",
        dictionary=PII,
        pattern=r"[京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼][A-HJ-NP-Z][ ·•]?"
        r"(?=[A-HJ-NP-Z0-9]{0,5}[0-9])[A-HJ-NP-Z0-9]{4,5}[A-HJ-NP-Z0-9挂学警港澳](?![0-9A-Za-z])",
    ),
    Rule(
        name="ip_address",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z.]|(?i:version|section|chapter|release|build|版本号?|[§#])[ :：]{0,2})"
        r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z]|\.[0-9])",
        holds=is_far_address,
    ),
    Rule(
        name="ip_address",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{1,4}(?![0-9A-Za-z:.])",
        holds=is_far_address,
        hints=(":",),
    ),
    Rule(
        name="internal_url",
        dictionary=INTERNAL_URLS,
        pattern=r"(?i)\b[a-z][a-z0-9+.-]{1,30}://(?:[^\s/@\"'<>]{1,200}@)?(?![^\s/@]{0,200}@)(?:localhost|[a-z0-9-]{1,63}(?=[:/\s\"'<>，。；）)]|\z)|"
        r"(?:[a-z0-9-]{1,63}\.){1,8}(?:local|internal|intranet|corp|lan|home|private|localdomain)(?![a-z0-9.-])|"
        r"(?:10|127)(?:\.[0-9]{1,3}){3}|192\.168(?:\.[0-9]{1,3}){2}|172\.(?:1[6-9]|2[0-9]|3[01])(?:\.[0-9]{1,3}){2})"
        r"[^\s\"'<>，。；（）、]{0,2000}",
        hints=("://",),
    ),
)
DICTIONARIES = (PII, SECRETS, INTERNAL_URLS)
RULE_NAMES = tuple(dict.fromkeys(rule.name for rule in RULES))
