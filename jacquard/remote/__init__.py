"""Operations of a service, each defined once; routes, description, client, tools and pages are made of the definition."""
