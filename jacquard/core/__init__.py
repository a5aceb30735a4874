"""Values, protocols and errors for all other folders of jacquard."""
