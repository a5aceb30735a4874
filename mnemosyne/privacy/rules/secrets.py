r"""Rules that find secrets: keys and tokens by their form, passwords by the words before them, passwords in URLs.

A Chinese keyword before a pattern needs no word boundary: `wifi密码` is a label of a password too.
"""

from __future__ import annotations

import re

from mnemosyne.privacy.rules.checks import (
    has_digit,
    is_hard_to_guess,
    is_like_a_password,
    is_mixed,
    is_no_form_word,
    is_no_prose,
    is_quoted_secret,
    is_written_with_keys,
)
from mnemosyne.privacy.rules.rule import SECRETS, Rule, Signs

_LATIN_WORDS = (
    r"pass(?:word|wd|phrase|code)|pwd|psw|secret(?:[ _-]?id)?|(?:app|client|api)[ _-]?secret|api[ _-]?key|apikey|"
    r"access[ _-]?key(?:[ _-]?(?:id|secret))?|secret[ _-]?(?:access[ _-]?)?key|private[ _-]?key|credential|pin(?: code)?|"
    r"otp|(?:one[ -]time|verification|security|access|auth(?:entication)?) (?:pass)?code"
)
_CHINESE_WORDS = (
    r"密码|口令|密钥|私钥|验证码|动态码|取件码|授权码|校验码|提取码|短信码|门禁码|激活码|邀请码|安全码|识别码"
)
_TOKEN_WORDS = r"(?:auth|access|refresh|session|id|bot|api)?[ _-]?token|session[ _-]?id|令牌"
SECRET_KEY = re.compile(
    r"(?:.*[_ .-])?(?:pass(?:word|wd|phrase|code)|pwd|secret|client[ _-]?secret|app[ _-]?secret|api[ _-]?key|apikey|"
    r"access[ _-]?key(?:[ _-]?id)?|secret[ _-]?key|private[ _-]?key|credential|pin(?: code)?|密码|口令|密钥|验证码|授权码|"
    rf"{_TOKEN_WORDS})",
    re.IGNORECASE | re.DOTALL,
)
"""Names of fields whose text is always a secret."""
_WORDS = rf"(?:(?<![a-z])|(?<=[a-z][_-]))(?:{_LATIN_WORDS})(?![a-z])|(?:{_CHINESE_WORDS})"
_LISTED_QUOTES = """
"" '' `` “” „“ „” ‟” ‘’ ‚‘ ‚’ ‛’ «» »« ‹› ›‹ 「」 『』 ｢｣ ﹁﹂ ﹃﹄ 《》 〈〉 【】 〔〕 〝〞 〝〟 ❝❞ ❛❜ ′′ ″″
"""
_QUOTES = _LISTED_QUOTES.split()
"""Pairs of quotation marks."""
_QUOTE = "".join(dict.fromkeys("".join(_QUOTES)))
_QUOTED = "|".join(rf"{begin}([^{begin}{end}\n]{{4,120}}){end}" for begin, end in map(tuple, _QUOTES))
_IS = r"(?:[:=：＝]|=>|->|→|就是|是|为|改成了?|改为了?|设[为成]了?|换成了?|重置为|is\b|was\b|to\b)"
_ASIDE = r"(?:[（(][^()（）\n]{1,12}[)）])?[我你您他她已被]{0,2}"
_GIVEN = rf"(?:['’]s\b|[{_QUOTE})]?{_ASIDE}(?:[ \t]{{0,3}}{_IS}){{1,2}})[ \t]{{0,3}}"
_OPENS = rf"(?:&(?:quot|apos|#3[49]|l[ads]quo);|[{_QUOTE}(]{{0,2}})[ \t]?"
_VALUE = rf"([^\s{_QUOTE},;，。；、（）()<>\[\]{{}}\u2e80-\u9fff]"
_HINTS = ("pass", "pwd", "psw", "secret", "key", "credential", "pin", "otp", "code", "密", "口令", "私钥", "码")
_BEFORE_KEY = r"(?<![A-Za-z0-9_-])"


def _keys(pattern: str, hints: str = "") -> Rule:
    return Rule(
        name="api_key",
        dictionary=SECRETS,
        pattern=rf"{_BEFORE_KEY}(?:{pattern})(?![A-Za-z0-9])",
        hints=tuple(hints.split()),
        needs=Signs.LONG,
    )


_NUMBERED = r"(?:\d{1,2}[.)、:：][ \t]*|[-*•·#][ \t]*)?"
_CODE = (
    rf"{_NUMBERED}[{_QUOTE}]?(?:(?=[a-z-]{{0,24}}\d)(?:[a-z0-9]{{3,8}}(?:-[a-z0-9]{{3,8}}){{1,7}}|[a-z0-9]{{6,24}})|"
    rf"\d{{3,6}}(?: \d{{3,6}}){{1,3}}|(?-i:[A-Z]{{4,6}}(?:-[A-Z]{{4,6}}){{1,7}}))(?![a-z0-9-])[{_QUOTE}]?"
)
"""A backup code, as in lists: with a digit, or groups of capitals."""


SECRET_RULES: tuple[Rule, ...] = (
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
        pattern=r"(?i)(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,30}://([^\s/@:]{0,200}:[^\s/@]{1,200})(?=@)",
        group=1,
        hints=("://",),
    ),
    Rule(
        name="url_token",
        dictionary=SECRETS,
        pattern=r"(?i)[?&#](?:access_token|auth_token|id_token|refresh_token|token|api_?key|apikey|key|secret|sig|signature|"
        r"x-amz-signature|x-amz-credential|password|passwd|pwd|auth|code|session(?:id)?)=([^&\s#\"'<>\u2e80-\u9fff]{6,2000})",
        group=1,
        hints=("=",),
    ),
    Rule(
        name="url_token",
        dictionary=SECRETS,
        pattern=r"(?i)https://(?:hooks\.slack\.com/(?:services|workflows|triggers)|"
        r"(?:\w{1,10}\.)?discord(?:app)?\.com/api/webhooks|"
        r"open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook|[\w-]{1,60}\.webhook\.office\.com/webhookb2|"
        r"maker\.ifttt\.com/trigger)/[\w/@.-]{8,300}",
        hints=("https://",),
    ),
    Rule(
        name="jwt",
        dictionary=SECRETS,
        pattern=r"(?<![A-Za-z0-9_])eyJ[\w-]{8,4000}\.eyJ[\w-]{4,8000}\.[\w-]{0,2000}",
        hints=("eyj",),
    ),
    _keys(
        r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}|LTAI[0-9A-Za-z]{12,30}|AKID[0-9A-Za-z]{13,40}|AIza[\w-]{35}|"
        r"ya29\.[\w-]{20,400}|"
        r"gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_\w{20,255}|gl(?:pat|dt|rt|ptt|ft|soat|agent)-[\w-]{16,100}|"
        r"xox[abeoprs](?:\.xox[bp])?-[\w-]{10,250}|xapp-[\w-]{10,250}|"
        r"(?:sk|rk|pk|whsec)_(?:live|test)_\w{10,250}|whsec_[\w+/=]{16,100}|sk-[\w-]{16,250}|hf_[A-Za-z0-9]{16,100}|"
        r"npm_[A-Za-z0-9]{30,100}|pypi-[\w-]{32,400}|SG\.[\w-]{16,64}\.[\w-]{16,64}|do[opr]_v1_[a-f0-9]{32,64}|"
        r"[0-9]{8,10}:AA[\w-]{30,40}|eyJrIjoi[\w=-]{20,400}|gsk_\w{20,100}|xai-\w{20,150}|r8_\w{30,60}|"
        r"jq_(?=[\w-]{0,40}\d)[\w-]{20,100}|amzn\.mws\.[0-9a-f-]{36}|ABSK[A-Za-z0-9+/]{40,200}={0,2}",
        "akia asia abia acca ltai akid aiza ya29. ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- glptt- glft- glsoat- "
        "glagent- xox xapp- _live_ _test_ whsec_ sk- hf_ npm_ pypi- sg. _v1_ :aa eyjrijoi gsk_ xai- r8_ jq_ amzn.mws absk",
    ),
    _keys(
        r"key-[0-9a-f]{32}|[0-9a-f]{32}-us[0-9]{1,2}|dapi[0-9a-f]{32}(?:-[0-9])?|lin_(?:api|oauth)_[A-Za-z0-9]{30,100}|"
        r"(?:ntn|secret)_[A-Za-z0-9]{40,60}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0(?:atp|csp|idp)-[\w-]{22,60}|"
        r"EAA[A-Za-z0-9_-]{50,400}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}|NR(?:AK|II|JS)-[A-Za-z0-9_-]{19,40}|"
        r"glsa_\w{32}_[0-9a-f]{8}|"
        r"glc_[\w+/=]{40,400}|hv[sbr]\.[\w-]{24,300}|dckr_(?:pat|oat)_[\w-]{20,60}|fig[doru]_[\w-]{20,100}|"
        r"AT[AC]TT3[\w=-]{40,300}|pplx-[A-Za-z0-9]{40,60}|sbp_[0-9a-f]{40}|AGE-SECRET-KEY-1[A-Z0-9]{58}|"
        r"dp\.(?:pt|st|ct|sa|scim)\.[A-Za-z0-9.]{40,80}|sntry[su]_[\w+/=.-]{20,400}|pscale_(?:tkn|pw|oauth)_[\w.-]{30,80}|"
        r"rubygems_[0-9a-f]{48}|tvly-[\w-]{20,60}|nvapi-[\w-]{40,100}|pnu_[A-Za-z0-9]{36}",
        "key- -us dapi lin_ ntn_ secret_ shpat_ shpca_ shppa_ shpss_ sq0 eaa pmak- nrak- nrii- nrjs- glsa_ glc_ hvs. hvb. hvr. "
        "dckr_ figd_ figo_ figr_ figu_ att3 ctt3 pplx- sbp_ age-secret dp. sntry pscale_ rubygems_ tvly- nvapi- pnu_",
    ),
    _keys(
        r"(?:FwoGZXIvYXdz|IQoJb3JpZ2luX2Vj)[\w+/=]{40,2000}|[A-Za-z0-9]{3}8Q~[\w.~-]{31,34}|"
        r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,45}|[0-9a-f]{32}\.[A-Za-z0-9]{16}|"
        r"(?:AC|SK)[a-f0-9]{32}|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"
    ),
    Rule(
        name="api_key",
        dictionary=SECRETS,
        pattern=r"(?i)(?<![a-z])(?:account|shared ?access)key=([\w+/]{40,100}={0,2})",
        group=1,
        hints=("key=",),
    ),
    # A secret of AWS has no form of its own: forty signs, next to words that speak of keys.
    Rule(
        name="api_key",
        dictionary=SECRETS,
        pattern=r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])",
        holds=is_mixed,
        holds_at=is_written_with_keys,
        hints=("aws", "akia", "asia", "secret", "access", "amazon", "密钥"),
        needs=Signs.LONG | Signs.DIGIT | Signs.CAPITAL,
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
        pattern=rf"(?i)(?:{_WORDS}){_GIVEN}{_OPENS}{_VALUE}{{4,500}})",
        holds=is_hard_to_guess,
        group=1,
        hints=_HINTS,
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=rf"(?i)(?:{_WORDS})(?:{_GIVEN}|[ \t]{{0,3}})\(?(?|{_QUOTED})",
        holds=is_quoted_secret,
        group=1,
        hints=_HINTS,
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=rf"(?i)(?<![a-z])(?:pw|[a-z0-9_]{{1,30}}[_-](?:pw|pass|secret)|"
        rf"[AS]K)[\"']?[ \t]{{0,2}}[:=：][ \t]{{0,2}}[\"']?"
        rf"{_VALUE}{{6,500}})",
        holds=is_hard_to_guess,
        group=1,
        hints=("pw", "pass", "secret", "ak", "sk"),
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=r"(?i)(?<![a-z0-9_-])[a-z0-9]{1,30}(?:_[a-z0-9]{1,30}){0,3}_key"
        r"[\"']?[ \t]{0,2}[:=][ \t]{0,2}[\"']?([\w+=-]{20,500})",
        holds=is_hard_to_guess,
        group=1,
        hints=("_key",),
    ),
    # Without a colon, only a value with digits: `the passcode 2580`, `后台密码 tplink2020`.
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=rf"(?i)(?:(?<![a-z])(?:pass(?:word|code|wd)|pwd|otp|(?:verification|security|"
        rf"one[ -]time) (?:pass)?code)[ \t][{_QUOTE}]?|"
        rf"(?:密码|口令|验证码|动态码|取件码|提取码|短信码|"
        rf"门禁码)[ \t{_QUOTE}]?){_VALUE}{{4,100}})(?![\u2e80-\u9fff]{{0,2}}[位个条种项])",
        holds=has_digit,
        group=1,
        hints=("pass", "pwd", "otp", "code", "密码", "口令", "码"),
        needs=Signs.DIGIT,
    ),
    # `the password has been changed to X`, `the password I set is X`: a value that no prose has.
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=rf"(?i)(?<![a-z])(?:pass(?:word|code|phrase|wd)|pwd|wi-?fi key)(?![a-z])(?: [a-z'’]{{1,12}}){{1,8}} (?:is|"
        rf"was|to|be|as)"
        rf"(?: now)?:? [{_QUOTE}]?{_VALUE}{{6,100}})",
        holds=is_like_a_password,
        group=1,
        hints=("pass", "pwd", "key"),
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=rf"(?i){_VALUE}{{6,100}})[\"”’]? as (?:the |my |your |our )?(?:pass(?:word|code)|pwd)(?![a-z])",
        holds=is_like_a_password,
        group=1,
        hints=("as ",),
    ),
    # A name and its password: `user=root pass=…`, `Guest network: HarborView / …`.
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=rf"(?i)(?<![a-z])(?:user(?:name)?|login|account|network|wi-?fi|wlan|ssid)(?![a-z])[^\n]{{1,60}}?"
        rf"(?:(?<![a-z])pass(?:wd)?[\"']?[ ]?[:=][ ]?[\"']?|[ ]/[ ]){_VALUE}{{6,100}})",
        holds=is_hard_to_guess,
        group=1,
        hints=("user", "login", "account", "network", "wifi", "wi-fi", "wlan", "ssid"),
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=rf"(?i)(?:(?<![a-z])(?:wi-?fi|wlan|network|router)[ _-](?:key|pass(?:word|phrase|code)?|pwd|pw)|"
        rf"(?:无线网?(?:络)?|路由器?|wi-?fi)密码){_GIVEN}{_OPENS}{_VALUE}{{8,63}})",
        holds=is_no_form_word,
        group=1,
        hints=("wifi", "wi-fi", "wlan", "network", "router", "无线", "路由"),
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=r"(?i)(?:(?<![a-z])(?:pass(?:word|code)|pwd)(?![a-z])[\"']?[ ]?[:=][ ]?[\"']?|密码(?:[:=：]|就?是|为)[ ]?)"
        r"([a-z]{3,15}(?:-[a-z]{3,15}){1,5}|(?<=[\u2e80-\u9fff：])[a-z]{9,30})(?![A-Za-z0-9_.(-])",
        holds=is_no_form_word,
        group=1,
        hints=("pass", "pwd", "密码"),
    ),
    # Codes of doors and of telephones are digits, in groups at times.
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=r"(?i)(?:(?<![a-z])(?:door|gate|entry|entrance|alarm|safe|locker|garage|key ?box|lock ?box|building|access|keypad|"
        r"one[ -]time|verification|security|login|sms|confirmation) (?:pass)?codes?(?: for [a-z ]{1,30}?)?|"
        r"(?:动态|验证|校验|短信|门禁|取件|提取|安全)码|门锁密码|密码锁)"
        r"(?:[ ]?[:：=][ ]?| is:? |是|为|[ ])(\d{4,8}[#*]?|\d{3}[ -]\d{3,4}|\d{2}(?:[ -]\d{2}){2,3})(?![\w/-]|[.:]\d|"
        r"[ ]?[个位条%元件])",
        group=1,
        hints=("code", "码", "锁"),
        needs=Signs.DIGIT,
    ),
    # Codes to get back into an account: one, or a list.
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=r"(?i)(?:(?<![a-z])(?:back-?up|recovery|rescue|scratch|emergency|restore|fallback|2fa|mfa|two[ -]factor)"
        r"[ _-]?(?:(?:backup|recovery|verification|login|access|auth)[ _-]?)?(?:codes?|keys?)(?![a-z])|"
        r"(?:备用|备份|恢复|救援|应急|紧急|找回)(?:恢复|验证|登录|账[号户]|两步验证)?(?:码|代码|密钥|密码))"
        r"(?: (?:for|of) [a-z0-9 ]{1,30}?|[ ]?[（(][^()（）\n]{1,30}[)）])?"
        rf"[{_QUOTE}]?[ \t]{{0,3}}(?:[:：=]|is\b|are\b|有|是|为|如下){{0,2}}[ \t]{{0,3}}[:：]?\s{{0,4}}\[?"
        rf"({_CODE}(?:\s{{0,3}}(?:[,;、，；/|]|and\b|和|\s)\s{{0,3}}{_CODE}){{0,29}})",
        group=1,
        hints=("code", "key", "码", "密钥"),
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=r"(?<![0-9-])(?:[0-9]{6}-){7}[0-9]{6}(?![0-9-])",
        hints=("-",),
        needs=Signs.SEVEN_DIGITS,
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=r"(?:(?<![A-Za-z])(?:PIN(?: code)?|(?i:pin (?:code|number)))(?:[ ]?[:=][ ]?|"
        r"[ ](?:is[ ])?))(\d{4,8})(?![\w/-]|[.:]\d)",
        group=1,
        hints=("pin",),
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=r"(?i)(?<![a-z])(?:pass ?phrase|(?:recovery|seed) (?:phrase|words))[\"']?[ \t]{0,2}(?:[:=]|is)[ \t]{0,2}"
        r"((?:[a-z]{3,12}[ -]){3,23}[a-z]{3,12})(?![A-Za-z0-9])",
        holds=is_no_prose,
        group=1,
        hints=("phrase", "words"),
    ),
    Rule(
        name="api_key",
        dictionary=SECRETS,
        pattern=r"(?i)(?<![a-z])(?:api|app|access|secret)[ _-]?key[ \t]{1,3}([0-9a-f]{32,64}|[A-Za-z0-9_-]{32,80})(?![\w-])",
        holds=has_digit,
        group=1,
        hints=("key",),
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=r"(?i)(?<![a-z])passphrase[\"']?[ \t]{0,2}(?:[:=]|is)[ \t]{0,2}[\"“]([^\"“”\n]{8,200})",
        group=1,
        hints=("passphrase",),
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=r"(?i)(?<![a-z])(?:(?:mysql|mysqldump|mysqladmin|mariadb) (?:[^\s|;]{1,60} ){0,8}-p|"
        rf"(?:credentials?|creds|logins?)[: ]{{1,2}}[\w.@-]{{1,40}}[:/]){_VALUE}{{4,100}})",
        holds=is_hard_to_guess,
        group=1,
        hints=("mysql", "mariadb", "cred", "login"),
    ),
    Rule(
        name="secret",
        dictionary=SECRETS,
        pattern=rf"(?i)(?:(?<![a-z])|(?<=[a-z][_-]))(?:{_TOKEN_WORDS})(?![a-z]){_GIVEN}{_OPENS}{_VALUE}{{12,4000}})",
        holds=is_hard_to_guess,
        group=1,
        hints=("token", "session", "令牌"),
    ),
)
