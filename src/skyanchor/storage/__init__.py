"""Files that are whole or absent, typed values in them, content digests. May touch: errors."""
