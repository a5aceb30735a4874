"""Contains the common parts of the adapters of all agent frameworks. None of these modules imports a framework."""
