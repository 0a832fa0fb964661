"""The scaffold seen from the street: its surface, rendered views, matches carried back to the aerial photos.

fusion (depth maps made one surface; tiles, strips: what does not fit into memory) -> surface (drawn from any camera) ->
ground, ways (where people walk) -> views (painted from aerial photos) -> carry (matches, back in the aerial photos).

May touch: the foundation, photos.
"""
