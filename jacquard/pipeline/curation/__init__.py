"""Stream B: recalls memories, selects among them and renders the selection."""
