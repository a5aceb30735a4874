"""Access to the service: tokens with their scopes and viewers, and limits on requests."""
