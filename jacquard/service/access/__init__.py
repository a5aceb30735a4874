"""Who may call the service: tokens, scopes, viewers, limits."""
