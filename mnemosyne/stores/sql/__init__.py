"""What the SQL stores share: every statement and every rule."""
