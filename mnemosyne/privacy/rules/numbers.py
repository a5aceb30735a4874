"""Rules that find personal data by its form.

They find addresses of mail and machines, phones, cards, and numbers of documents, accounts and devices. A keyword
before a pattern needs no word boundary, because Chinese has none: in `邮箱a@b.cn` the address is found.
"""

from __future__ import annotations

from mnemosyne.privacy.rules.checks import (
    is_card,
    is_document_number,
    is_far_address,
    is_iban,
    is_id_card,
    is_labelled_number,
    is_mac_address,
    is_messenger_name,
    is_no_date,
    is_number_with_prefix,
    is_plate,
    is_social_number,
    is_written_with_devices,
    is_written_with_persons,
)
from mnemosyne.privacy.rules.rule import INTERNAL_URLS, PII, SECRETS, Rule, Signs

_MAIL = r"A-Za-z0-9\u00c0-\u024f\u0400-\u04ff"
"""Letters and digits of a mail address; not Chinese, which may come right before one."""
_GAP = r"[ .·_/-]{0,3}"
"""Separators between the digits of a number."""
_AFTER_LABEL = (
    r"(?:[ ]?(?:numbers?|nos?\b\.?|num\b\.?|nr\b\.?|id\b|号码?|码|编号))?"
    r"(?:[\"'“”‘’「」『』【】)）]|[ \t]|[（(][^()（）\n]{0,20}[)）]){0,4}"
    r"(?:[:：=#]|是|为|is\b|->|→|[ \t-]){0,3}[ \t]{0,3}[\"'“‘「『【(（]?"
)
"""Text between the label of a number and the number."""
_PERSON_ID = (
    r"(?:(?<![a-z])(?:(?:prc|chinese|resident|national)[ ]?id(?:entity)?(?:[ ]?cards?)?|sfz(?:h|hm)?|"
    r"id(?:entity)?[ _-]?(?:cards?|numbers?|nos?))(?![a-z])|身份证|证件|公民身份)"
)
_BANK_ACCOUNT = (
    r"(?:(?<![a-z])(?:(?:bank|checking|savings?|current|giro|deposit|payroll|beneficiary)[ _-](?:account|acct|a/c)|"
    r"(?:account|acct|acc|a/c)[ _-]?(?:numbers?|nos?\b\.?|num\b\.?|nr\b\.?|#)|accountNumber|acct(?=[:：])|a/c|"
    r"konto(?:nummer|-?nr\.?)?|rekeningnummer|n[uú]m[ée]ro de (?:cuenta|compte)|cuenta bancaria|conto corrente)(?![a-z])|"
    r"[账帐][号户]|卡号|(?:银行|储蓄|借记|信用|工资)卡)"
)
_WECHAT = r"(?:[微薇威维] ?信|绿泡泡|(?<![a-z])(?:we[ -]?chat|weixin)(?![a-z])|(?<![a-z])wx(?=[:：]))"
_WECHAT_NAME = (
    r"(?:[微薇威维] ?信 ?(?:号|id|同名)|(?<![a-z])(?:we[ -]?chat|weixin|wx)[ _-]?(?:id|name|handle|account|号)|"
    r"v信号?|[加➕]v(?:信)?|(?<![a-z])vx号?)"
)
_ASIDE = r"[（(][^()（）\n]{0,20}[)）]"
_IS_NAMED = (
    rf"(?:码|[\"'”’」』】)）]|{_ASIDE})?[ \t]{{0,3}}(?:[:：]|是|为|is\b){{0,2}}[ \t]{{0,3}}[\"'“‘「『【(（]?(?<![-_.])"
)
"""Text between the label of a messenger and a name in it; in code there is an equals sign."""

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
        pattern=rf"(?:(?<![0-9A-Za-z])|(?<=(?<![A-Za-z])(?i:id|no)))(?:[1-8](?:{_GAP}[0-9]){{16}}{_GAP}[0-9Xx]|[1-8][0-9]{{14}})"
        r"(?![0-9A-Za-z])",
        holds=is_id_card,
        needs=Signs.SEVEN_DIGITS,
    ),
    # A writer of the label means it, whatever the check sign.
    Rule(
        name="id_card",
        dictionary=PII,
        pattern=rf"(?i){_PERSON_ID}{_AFTER_LABEL}([1-8](?:{_GAP}[0-9]){{13}}(?:{_GAP}[0-9]|(?:{_GAP}[0-9]){{3}}{_GAP}[0-9x]))(?![0-9a-z])",
        group=1,
        needs=Signs.SEVEN_DIGITS,
    ),
    Rule(
        name="bank_card",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z.])(?:(?:[2-6][0-9]{3}|8171|9558)(?:[ -]?[0-9]{4}){2,3}(?:[ -]?[0-9]{1,4})?"
        r"|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5}|3[0689][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{4})(?![0-9A-Za-z])",
        holds=is_card,
        needs=Signs.SEVEN_DIGITS,
        also=SECRETS,
    ),
    Rule(
        name="iban",
        dictionary=PII,
        pattern=r"(?i)(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]{4}){2,7}(?:[ -]?[A-Z0-9]{1,3})?(?![A-Za-z0-9])",
        holds=is_iban,
        needs=Signs.DIGIT,
    ),
    Rule(
        name="phone",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z.])(?:(?:\+|00)?86[ -]?|\(\+?86\)[ -]?)?1[3-9][0-9](?:[ -]?[0-9]{4}){2}(?![0-9A-Za-z])",
        needs=Signs.SEVEN_DIGITS,
    ),
    Rule(
        name="phone",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z-])(?:(?:\(0[0-9]{2,3}\)[ -]?|0[0-9]{2,3}[ -])[2-9][0-9]{2,3}[ -]?[0-9]{4}"
        r"|[48]00-[0-9]{3}-[0-9]{4})(?![0-9-])",
        needs=Signs.SEVEN_DIGITS,
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
        needs=Signs.SEVEN_DIGITS,
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
        needs=Signs.SEVEN_DIGITS,
    ),
    Rule(
        name="social_number",
        dictionary=PII,
        pattern=r"(?<![0-9-])[0-9]{3} ?- ?[0-9]{2} ?- ?[0-9]{4}(?![0-9-])",
        holds=is_social_number,
        hints=("-",),
        needs=Signs.SEVEN_DIGITS,
    ),
    Rule(
        name="social_number",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z.,-])(?<![0-9] )[0-9]{3}(?P<gap>[ ._·]| {2})[0-9]{2}(?P=gap)[0-9]{4}(?![0-9A-Za-z-]|[ .,]?[0-9])",
        holds=is_social_number,
        holds_at=is_written_with_persons,
        needs=Signs.SEVEN_DIGITS,
    ),
    Rule(
        name="social_number",
        dictionary=PII,
        pattern=r"(?i)(?:(?<![a-z])(?:s\.?s\.?n\b\.?|ss ?(?:#|no\b|number|num\b)|soc(?:ial|\.)? (?:sec(?:urity|\.)?|insurance)|"
        r"socialSecurity|social[_-]security|(?:my|his|her|their|your) social)(?![a-z])|"
        r"社会?(?:安全|保障)(?:号码?)?|社[安保]号码?)"
        rf"[^0-9\n]{{0,40}}?(?<![0-9.,-])([0-9]{{3}}{_GAP}[0-9]{{2}}{_GAP}[0-9]{{4}})(?![0-9])",
        holds=is_social_number,
        group=1,
        hints=("s", "社"),
        needs=Signs.SEVEN_DIGITS,
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
        needs=Signs.HAN | Signs.DIGIT,
    ),
    Rule(
        name="ip_address",
        dictionary=PII,
        pattern=r"(?:(?<![0-9A-Za-z.])|(?<=(?<![A-Za-z])(?i:ip)))(?<!(?i:version|section|chapter|release|build|版本号?|"
        r"[§#])[ :：]{0,2})"
        r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z]|\.[0-9])",
        holds=is_far_address,
        needs=Signs.DIGIT,
    ),
    Rule(
        name="ip_address",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{1,4}(?![0-9A-Za-z:.])",
        holds=is_far_address,
        hints=(":",),
    ),
    Rule(
        name="bank_account",
        dictionary=PII,
        pattern=rf"(?i){_BANK_ACCOUNT}{_AFTER_LABEL}(?:(?:of|for|at|with) (?:my |the )?[a-z]{{2,20}} )?"
        rf"([0-9](?:{_GAP}[0-9]){{6,20}})(?![0-9A-Za-z]|[.:][0-9]|[ ]?[元万次个天人])",
        holds=is_no_date,
        group=1,
        needs=Signs.SEVEN_DIGITS,
    ),
    Rule(
        name="bank_account",
        dictionary=PII,
        pattern=rf"(?i)(?<![a-z])(?:(?:routing|transit)[ _-]?(?:number|no\b|num\b|#)|aba|rtn)(?![a-z]){_AFTER_LABEL}"
        r"([0-9]{4}[ -]?[0-9]{4}[ -]?[0-9])(?![0-9])",
        group=1,
        hints=("routing", "aba", "rtn", "transit"),
        needs=Signs.SEVEN_DIGITS,
    ),
    Rule(
        name="bank_account",
        dictionary=PII,
        pattern=rf"(?i)(?<![a-z])(?:sort[ _-]?code|bsb)(?![a-z]){_AFTER_LABEL}"
        r"([0-9]{2}[ -]?[0-9]{2}[ -]?[0-9]{2}|[0-9]{3}[ -]?[0-9]{3})(?![0-9-])",
        group=1,
        hints=("sort", "bsb"),
        needs=Signs.DIGIT,
    ),
    # 微信 and QQ: a name or a number after its label.
    Rule(
        name="messenger",
        dictionary=PII,
        pattern=rf"(?i){_WECHAT_NAME}(?:=|{_IS_NAMED})([a-z][\w-]{{4,31}})(?![\w-])",
        holds=is_messenger_name,
        group=1,
        hints=("信", "chat", "weixin", "wx", "加v", "vx"),
    ),
    Rule(
        name="messenger",
        dictionary=PII,
        pattern=rf"(?i){_WECHAT}{_IS_NAMED}((?=[\w-]{{0,31}}[0-9_-])[a-z][\w-]{{5,31}})(?![\w.-])",
        holds=is_messenger_name,
        group=1,
        hints=("信", "绿泡泡", "chat", "weixin", "wx"),
    ),
    Rule(name="messenger", dictionary=PII, pattern=r"(?<![A-Za-z0-9_-])wxid_[A-Za-z0-9_-]{6,40}", hints=("wxid_",)),
    Rule(
        name="messenger",
        dictionary=PII,
        pattern=rf"(?i)(?:(?<![a-z])q ?q|[扣叩球蔻]{{2}}|企鹅|(?<![a-z])q(?=号))(?![a-z群版邮音空飞])(?:账号)?"
        rf"(?:[ ]?[/／、&][ ]?[微薇威]信号?)?{_AFTER_LABEL}"
        r"([1-9](?:[ -]?[0-9]){4,10})(?![0-9A-Za-z]|[.:][0-9]|[ ]?(?:[个万元点年月版人次条分]|邮箱))",
        group=1,
        hints=("qq", "q q", "扣", "叩", "球球", "蔻", "企鹅", "q号"),
        needs=Signs.DIGIT,
    ),
    Rule(
        name="device_id",
        dictionary=PII,
        pattern=r"(?i)(?:(?<![a-z])(?:imei(?:sv)?|meid|imsi|iccid|esn|eid)(?![a-z])(?:[ ]?[0-9]\b)?|串号|串码|"
        rf"移动设备(?:识别|身份)码){_AFTER_LABEL}((?:[0-9](?:{_GAP}[0-9]){{13,19}}|[0-9A-F]{{14}}|[0-9A-F]{{8}}))(?![0-9A-Za-z])",
        group=1,
        hints=("imei", "meid", "imsi", "iccid", "esn", "eid", "串", "移动设备"),
        needs=Signs.DIGIT,
    ),
    Rule(
        name="device_id",
        dictionary=PII,
        pattern=r"(?<![0-9A-Za-z:.-])(?:[0-9A-Fa-f]{2}(?P<colon>[:-])(?:[0-9A-Fa-f]{2}(?P=colon)){4}[0-9A-Fa-f]{2}|"
        r"[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4})(?![0-9A-Za-z]|[:.-][0-9A-Fa-f])",
        holds=is_mac_address,
        holds_at=is_written_with_devices,
    ),
    Rule(
        name="device_id",
        dictionary=PII,
        pattern=r"(?i)(?:(?<![a-z])(?:mac|bssid|hwaddr|ether|wi-?fi|bluetooth|ethernet|hardware|physical)"
        r"(?:[ _-]?(?:addr(?:ess)?|id))?(?![a-z])|"
        rf"(?:mac|物理|网卡|蓝牙|无线|硬件)地址){_AFTER_LABEL}"
        r"((?:[0-9A-F]{2}[ :.-]?){5}[0-9A-F]{2})(?![0-9A-Za-z]|[:.-][0-9A-F])",
        holds=is_mac_address,
        group=1,
        hints=("mac", "bssid", "hwaddr", "ether", "fi", "bluetooth", "hardware", "physical", "地址"),
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
