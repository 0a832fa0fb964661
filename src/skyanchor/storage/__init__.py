"""Files that are whole or absent, typed values in them, content digests.

- *Ours*: files (all that is written and removed, and typed values read back), exchange (of two folders), codec (values
  as JSON and .npz), names (which paths names may become), digests, digest_cache; spill (arrays that wait on the disk).
- *Of others*: foreign (read with care), kinds (which of our folders one is), taken (what must not be written over).

May touch: errors.
"""
