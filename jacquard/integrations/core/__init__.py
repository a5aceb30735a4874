"""Common parts of the adapters of all agent frameworks; none of these modules imports a framework."""
