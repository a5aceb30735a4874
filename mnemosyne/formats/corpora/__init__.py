"""The normalised corpus (`corpus.jsonl`), in which labelled sets and exports of a host are brought in."""
