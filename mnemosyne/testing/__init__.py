"""Contract suites: what every implementation of a Protocol of mnemosyne must pass. They need pytest and hypothesis."""
