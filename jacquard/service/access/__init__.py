"""Controls access to the service: tokens with their scopes (rights) and viewers, and limits on requests."""
