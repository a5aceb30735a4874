"""Access to the service: tokens, scopes, viewers, limits."""
