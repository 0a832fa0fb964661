"""Features, matchers and retrieval behind one protocol."""
