"""Rules for personal data with a form of its own: addresses of mail and machines, phones, cards, numbers of documents. Pure.

A keyword before a pattern needs no word boundary, because Chinese has none: `邮箱a@b.cn` is an address.
"""

from __future__ import annotations

from mnemosyne.privacy.rules.checks import (
    is_card,
    is_document_number,
    is_far_address,
    is_iban,
    is_id_card,
    is_labelled_number,
    is_number_with_prefix,
    is_plate,
    is_social_number,
)
from mnemosyne.privacy.rules.rule import INTERNAL_URLS, PII, Rule

_MAIL = r"A-Za-z0-9\u00c0-\u024f\u0400-\u04ff"
"""Letters and digits of a mail address; not Chinese, which may stand right before one."""

NUMBER_RULES: tuple[Rule, ...] = (
    Rule(
        name="email",
        dictionary=PII,
        pattern=rf"(?<![{_MAIL}._%+-])(?<![A-Za-z0-9]')[{_MAIL}_%+](?:[{_MAIL}._%+-]|'(?=[A-Za-z])){{0,63}}@"
        rf"(?:[{_MAIL}](?:[{_MAIL}-]{{0,62}})\.){{1,8}}(?:[A-Za-z]{{2,24}}|xn--[A-Za-z0-9-]{{2,59}})(?![A-Za-z0-9-])",
        hints=("@",),
        unless="url_credentials",
    ),
    Rule(
        name="email",
        dictionary=PII,
        pattern=rf"(?i)(?<![{_MAIL}._%+-])[{_MAIL}._%+-]{{1,64}} ?[\[({{] ?(?:at|@) ?[\])}}] ?"
        rf"(?:[{_MAIL}-]{{1,63}}(?: ?[\[({{] ?(?:dot|\.) ?[\])}}] ?|\.)){{1,8}}[A-Za-z]{{2,24}}(?![A-Za-z0-9-])",
        hints=("at)", "at]", "at}", "@", "at "),
    ),
    Rule(
        name="id_card",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z])[1-8][0-9]{5}(?:[0-9]{11}[0-9Xx]|[0-9]{9}|(?P<sign>[ -])[0-9]{8}(?P=sign)[0-9]{3}[0-9Xx])"
        r"(?![0-9A-Za-z])",
        holds=is_id_card,
    ),
    Rule(
        name="bank_card",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z.])(?:(?:[2-6][0-9]{3}|8171|9558)(?:[ -]?[0-9]{4}){2,3}(?:[ -]?[0-9]{1,4})?"
        r"|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}|3[0689][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{4})(?![0-9A-Za-z])",
        holds=is_card,
    ),
    Rule(
        name="iban",
        dictionary=PII,
        pattern=r"(?i)(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])",
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
    # France, United Kingdom, Germany, Australia, Japan, Taiwan, and 00 before a country code.
    Rule(
        name="phone",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z.+/-])(?:0[1-9](?:(?P<dot>[ .])[0-9]{2})(?:(?P=dot)[0-9]{2}){3}|"
        r"\(0[1-9][0-9]{0,3}\)[ -]?[0-9]{3,4}[ -]?[0-9]{4}|07[1-9][0-9]{2} ?[0-9]{3} ?[0-9]{3}|"
        r"01[0-9]{3} [0-9]{3} ?[0-9]{3}|01[567][0-9][ /-][0-9]{7,8}|"
        r"0[1-9][0-9]{1,4}/[0-9]{4,8}(?:-[0-9]{1,4})?|04[0-9]{2} [0-9]{3} [0-9]{3}|0[2-9] [0-9]{4} [0-9]{4}|"
        r"0[1-9]-[0-9]{4}-[0-9]{4}|0[1-9][0-9]{1,2}-[0-9]{3,4}-[0-9]{3,4}|"
        r"00(?:1(?=(?:[ -]?[0-9]){10}(?![ -]?[0-9]))|7|2[07]|3[0-469]|4[0-9]|5[1-8]|6[0-6]|8[1246]|"
        r"9[0-58])[ -]?[0-9](?:[ -]?[0-9]){7,11})(?![0-9-])",
        hints=("0",),
    ),
    Rule(
        name="phone",
        dictionary=PII,
        pattern=r"(?i)(?:(?<![a-z])(?:(?:tele|cell|mobile|home|work|office|smart)?[ _-]?phones?|tel|mobile|cell|"
        r"fax|whatsapp|sms|"
        r"handy|portable|keitai|hotline|contact|call(?:[ -]?back| me)?|dial|ring|text)(?![a-z])|"
        r"电话|手机|座机|固话|传真|热线|专线|联系方式|拨打|致电|总机|微信)"
        r"(?:[ _-]?(?:numbers?|nos?\b|no\.|号码|号)|是|为|改成)?[^0-9A-Za-z\n+(]{0,4}(?:(?:is|on|at|"
        r"in [A-Z][a-z]{2,20}) )?[^0-9A-Za-z\n+(]{0,2}"
        r"(\+?\(?[0-9](?:[ ().-]{0,2}[0-9]){6,14})(?![0-9]|[.,:/-][0-9])",
        holds=is_labelled_number,
        group=1,
    ),
    Rule(
        name="social_number",
        dictionary=PII,
        pattern=r"(?<![0-9-])[0-9]{3}-[0-9]{2}-[0-9]{4}(?![0-9-])",
        holds=is_social_number,
        hints=("-",),
    ),
    Rule(
        name="social_number",
        dictionary=PII,
        pattern=r"(?i)(?:(?<![a-z])(?:ssn|ss ?#|soc(?:ial|\.) (?:sec(?:urity|\.)|insurance))(?![a-z])|"
        r"社会?安全号码?|社保号码?)"
        r"[^0-9\n]{0,20}([0-9]{3}[-. ]?[0-9]{2}[-. ]?[0-9]{4})(?![0-9])",
        holds=is_social_number,
        group=1,
        hints=("ss", "soc", "社"),
    ),
    Rule(
        name="social_number",
        dictionary=PII,
        pattern=r"(?i)(?<![a-z])(?:national insurance|nino|ni (?:number|no))(?![a-z])[^0-9\n]{0,12}?"
        r"(?<![a-z])([a-z]{2}(?: ?[0-9]{2}){3} ?[a-d])(?![0-9a-z])",
        group=1,
        hints=("insurance", "nino", "ni n"),
    ),
    Rule(
        name="social_number",
        dictionary=PII,
        pattern=r"(?:(?<![A-Za-z])SIN|"
        r"(?i:social insurance))(?![A-Za-z])[^0-9\n]{0,12}([0-9]{3}(?:[ -]?[0-9]{3}){2})(?![0-9A-Za-z])",
        group=1,
        hints=("sin", "social insurance"),
    ),
    Rule(
        name="passport",
        dictionary=PII,
        pattern=r"(?i)(?:(?<![a-z])(?:passport|travel document)|护照|通行证|台胞证|"
        r"回乡证)[^0-9a-z\n]{0,8}(?:(?:no|number|id|nr)\b\.?)?"
        r"[^0-9a-z\n]{0,6}(?:is )?([a-z]{0,2}[0-9]{6,9})(?![0-9a-z])",
        group=1,
        hints=("passport", "travel document", "护照", "通行证", "台胞证", "回乡证"),
    ),
    Rule(
        name="passport",
        dictionary=PII,
        pattern=r"(?i)(?:(?<![a-z])driv(?:er['’]?s?|ing) licen[cs]e|驾驶证|驾照)[^0-9a-z\n]{0,8}(?:(?:no|number|"
        r"id|nr)\b\.?)?[^0-9a-z\n]{0,6}(?:is )?"
        r"((?-i:[A-Z0-9])[A-Z0-9]{5,19}|[A-Z]?[0-9]{3,6}(?:-[0-9]{2,6}){1,3})(?![0-9a-z-])",
        holds=is_document_number,
        group=1,
        hints=("licen", "驾"),
    ),
    Rule(
        name="passport",
        dictionary=PII,
        pattern=r"(?:军官证|士兵证)号?[^0-9\n\u4e00-\u9fff]{0,4}([\u4e00-\u9fff]字第[0-9]{4,10}号?)",
        group=1,
        hints=("军官证", "士兵证"),
    ),
    Rule(
        name="plate",
        dictionary=PII,
        pattern=r"(?i:(?<![a-z])(?:(?:licen[cs]e|number) plate|plate|(?:vehicle |car )?registration|"
        r"reg)(?: (?:number|no\.?))?(?![a-z])"
        r"[ :#=]{1,4}(?:is )?)([A-Z0-9]{1,7}(?:[ -][A-Z0-9]{1,4}){0,3})(?![A-Za-z0-9-])",
        holds=is_plate,
        group=1,
        hints=("plate", "reg"),
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
        pattern=r"(?:(?<![0-9A-Za-z.])|(?<=(?<![A-Za-z])(?i:ip)))(?<!(?i:version|section|chapter|release|build|版本号?|"
        r"[§#])[ :：]{0,2})"
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
        pattern=r"(?i)(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,30}://(?:[^\s/@\"'<>]{1,200}@)?(?![^\s/@]{0,200}@)(?:localhost|"
        r"[a-z0-9-]{1,63}(?=[:/\s\"'<>，。；）)]|\z)|"
        r"(?:[a-z0-9-]{1,63}\.){1,8}(?:local|internal|intranet|corp|lan|home|private|localdomain)(?![a-z0-9.-])|"
        r"(?:10|127)(?:\.[0-9]{1,3}){3}|192\.168(?:\.[0-9]{1,3}){2}|172\.(?:1[6-9]|2[0-9]|3[01])(?:\.[0-9]{1,3}){2})"
        r"[^\s\"'<>，。；（）、]{0,2000}",
        hints=("://",),
    ),
)
