"""Names of spans and of their attributes. Our names begin with `jacquard.`, names of the GenAI conventions with
`gen_ai.`.

The conventions are still in development and have no stable package, so each used name is written here once. The names
are those of open-telemetry/semantic-conventions-genai as of 2026-11. `VERSION` is our version of this list, and changes
when a name does.
"""

from __future__ import annotations

VERSION = "jacquard-genai/1"
OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
MAX_TOKENS = "gen_ai.request.max_tokens"
TEMPERATURE = "gen_ai.request.temperature"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOP_K = "gen_ai.retrieval.top_k"
ERROR_TYPE = "error.type"
