"""Contract suites of jacquard's protocols, for third parties; they need pytest. Nothing in the three packages imports them."""
