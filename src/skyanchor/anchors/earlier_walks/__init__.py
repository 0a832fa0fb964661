"""Keyframes of earlier walks as support: street photos whose poses stand as those of the flight do.

Street photos match street photos far better than anything that is seen from above. keyframes (the photos, and by what
they are recalled) -> street_points (what they see, and what a group sees of it) -> settling (the group's place by them
alone), which rests on stated (how far two places lie apart) -> beside_flight (what the flight and they say together).
"""
