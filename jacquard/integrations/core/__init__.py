"""What the adapters of all agent frameworks share; none of these modules imports a framework."""
