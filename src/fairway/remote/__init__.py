"""The engine's twin over HTTP: the same verbs, spoken to a server."""
