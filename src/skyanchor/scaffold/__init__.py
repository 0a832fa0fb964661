"""The aerial model as users bring it: loading, frame check, georeference, visibility graph."""
