"""Renders a context block (a part of a prompt) as text.

The text consists of the texts of the block's refs (references to evidence). If no ref has a text, the block's own content is
used.
"""

from __future__ import annotations

import json
import re

from mnemosyne.protocols import ResolveRef
from mnemosyne.schema.evidence import ContextBlock, RenderedBlock, RenderFormat, RenderHints

_TICKS = re.compile(r"`{3,}")
_CUT = "…"


class RefRenderer:
    """The built-in `Renderer`.

    A text longer than `hints.max_chars` is cut and ends with `…`. In the form `markdown` the text is inside a code
    fence that the text cannot close. In the form `json`, JSON is written without blanks, and any other text becomes a JSON
    string.
    """

    async def render_block(
        self, block: ContextBlock, resolver: ResolveRef, hints: RenderHints | None = None
    ) -> RenderedBlock:
        """Return `block` rendered as text: the texts of its refs, each on a new line. If no ref has a text, the block's own
        content is rendered.

        `resolver` returns the text of a ref. `hints` set the form and the maximum length.
        """
        chosen = hints or RenderHints()
        texts = [found.text for ref in block.refs if (found := await resolver(ref)).text]
        text = "\n".join(texts) if texts else block.content
        return RenderedBlock(
            block_id=block.block_id,
            block_type=block.block_type,
            priority=block.priority,
            rendered_content=_in_form(_cut(text, chosen.max_chars), chosen.format) if text.strip() else "",
            token_estimate=block.token_estimate,
        )


def _cut(text: str, max_chars: int | None) -> str:
    return text if max_chars is None or len(text) <= max_chars else f"{text[: max_chars - 1]}{_CUT}"


def _in_form(text: str, form: str) -> str:
    if form == RenderFormat.MARKDOWN:
        fence = "`" * (1 + max((len(ticks) for ticks in _TICKS.findall(text)), default=2))
        return f"{fence}\n{text}\n{fence}"
    if form == RenderFormat.JSON:
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = text
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text
