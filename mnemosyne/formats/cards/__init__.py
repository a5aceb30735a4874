"""Character cards: V1, V2 and V3, as JSON, in the text chunks of a PNG, and in CHARX archives."""
