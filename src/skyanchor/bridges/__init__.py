"""The scaffold seen from the street: its surface, rendered views, matches carried back to the aerial photos."""
