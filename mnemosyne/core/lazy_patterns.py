"""Defines regular expressions that are compiled at their first use, so that importing a module stays fast.

Python needs milliseconds to compile a pattern with many words, or with a class of thousands of Chinese characters, and a
process uses few of the patterns that it imports.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, cast


class _LazyPattern:
    def __init__(self, pattern: str, flags: re.RegexFlag | int) -> None:
        self._source = (pattern, flags)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(*self._source)

    def __getattr__(self, name: str) -> Any:
        # Called once for each name, which is an attribute of its own from then on.
        value = getattr(self._compiled, name)
        setattr(self, name, value)
        return value


def lazy_pattern(pattern: str, flags: re.RegexFlag | int = 0) -> re.Pattern[str]:
    """Return the pattern of `re.compile(pattern, flags)`, compiled when one of its methods is first called.

    An error in `pattern` is raised by that call.
    """
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))
