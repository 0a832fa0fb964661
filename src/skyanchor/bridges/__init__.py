"""The scaffold seen from the street: its surface, rendered views, matches carried back to the aerial photos.

fusion (depth maps made one surface; tiles, strips: what does not fit into memory) -> surface (drawn from any camera) ->
ground, street_directions (where people walk, and which way the streets run) -> views (painted from aerial photos) ->
carry (matches, back in the aerial photos). rounding and the `*_kernels` are the compiled parts.

May touch: the foundation, photos.
"""
