"""Masks credentials in the addresses of services (`http://USER:PASSWORD@HOST/PATH?key=VALUE`).

The user, the password and every value of the query may be a secret, so none of them is stored or shown. Calls use the
full address. `mnemosyne.stores.locate` reads the addresses of stores;
`mnemosyne.core.masking.credentials` masks whole texts.
"""

from __future__ import annotations

import base64
import re
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"
_LEAST_SECRET_CHARS = 3
"""Least length of a secret that is masked in sentences. Shorter ones are masked only in addresses, because a sentence may contain
the same characters in a harmless word.
"""

_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)?(?P<rest>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?", re.S
)
_FORM = "USER:PASSWORD"
"""Words for user and password in sentences about addresses."""

_OWN = "mnemosyne://"
"""Scheme of our own addresses of sessions and turns; their ids may contain `@`."""

# The signs of a scheme are read once, from the first of them on; it begins with the first letter among them.
_ADDRESS_IN_TEXT = re.compile(r"(?<![A-Za-z0-9+.-])([0-9+.-]*+)([A-Za-z][A-Za-z0-9+.-]*+://[^\s'\"<>`]+)")


def mask_address(address: str) -> str:
    """Return the address in a form that may be stored and shown.

    Stars replace the user, the password, the fragment and the values of the query.
    """
    scheme, user_info, rest, query, fragment = _split_address(address, guess=True)
    user = f"{HIDDEN}@" if user_info else ""
    return (
        f"{scheme}{user}{rest}{re.sub(r'[^?&;]+', _mask_value, query)}{f'#{HIDDEN}' if len(fragment) > 1 else fragment}"
    )


def mask_user_info(text: str) -> str:
    """Return `text` with stars in place of the user and password of every address in it."""
    return _ADDRESS_IN_TEXT.sub(_mask_found_user, text)


def _mask_found_user(found: re.Match[str]) -> str:
    before, address = found.groups()
    if address.startswith(_OWN):
        return found[0]
    scheme, user_info, rest, query, fragment = _split_address(address, guess=True)
    is_safe = not user_info or user_info.endswith(f":{HIDDEN}") or user_info == _FORM
    return found[0] if is_safe else f"{before}{scheme}{HIDDEN}@{rest}{query}{fragment}"


def split_credentials(address: str | None) -> tuple[str | None, dict[str, str]]:
    """Return (address without user and password, headers that contain user and password).

    If the address has neither, the headers are empty. If `address` is None, the first item is None.
    Clients treat credentials in an address in different ways, so they are sent as an Authorization header.
    """
    if address is None:
        return None, {}
    scheme, user_info, rest, query, fragment = _split_address(address)
    if not user_info:
        return address, {}
    return f"{scheme}{rest}{query}{fragment}", {"Authorization": f"Basic {_basic_auth(user_info)}"}


def _split_address(address: str, *, guess: bool = False) -> tuple[str, str, str, str, str]:
    """Return scheme, user and password, host and path, query, and fragment, each with its delimiters except the `@`.

    A password with an unescaped slash, `?` or `#` makes an invalid address but is still a secret: everything before the
    last `@` counts as one if the host would otherwise have a port that is not a number. With `guess` it counts as one
    also after a number, which may be the beginning of a password: right for showing an address, not for calling it.
    """
    found = _PARTS.fullmatch(address)
    assert found is not None, "every text has these parts, most of them empty"
    scheme, rest = found["scheme"] or "", found["rest"]
    authority, behind = rest.partition("/")[0], address[len(scheme) :]
    after = behind[len(authority) :]
    if "@" in authority and not (guess and "@" in after):
        user_info, _, host = authority.rpartition("@")
        return scheme, user_info, host + rest[len(authority) :], found["query"] or "", found["fragment"] or ""
    is_port = re.fullmatch(r"[^:]*:\d*|\[.*", authority) is not None
    is_broken = "@" in authority or (":" in authority and (guess or not is_port) and not authority.startswith("["))
    if "@" in after and is_broken:
        user_info, _, broken = behind.rpartition("@")
        host = _PARTS.fullmatch(broken)
        assert host is not None, "every text has these parts, most of them empty"
        return scheme, user_info, host["rest"], host["query"] or "", host["fragment"] or ""
    return scheme, "", rest, found["query"] or "", found["fragment"] or ""


def _mask_value(part: re.Match[str]) -> str:
    name, mark, value = part[0].partition("=")
    if not mark:
        return HIDDEN
    return f"{name}={HIDDEN}" if value else part[0]


def secrets_of(address: str) -> set[str]:
    """Return the secrets in an address, each in its written form and with its escapes decoded:

    - the password, or the user name if there is no password,
    - user and password together,
    - the fragment,
    - the values of the query,
    - the value of the Authorization header for user and password.
    """
    _, user_info, _, query, fragment = _split_address(address, guess=True)
    user, mark, password = user_info.partition(":")
    values = [password if mark else user, user_info, fragment[1:]]
    values += [part.partition("=")[2] or part for part in re.split(r"[?&;]", query)]
    found = {form for value in values for form in (value, unquote(value), unquote_plus(value))}
    if user_info:
        found.add(_basic_auth(user_info))
    return {each for each in found if len(each) >= _LEAST_SECRET_CHARS}


def _basic_auth(user_info: str) -> str:
    user, _, password = user_info.partition(":")
    return base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode("ascii")
