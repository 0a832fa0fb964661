"""SkyAnchor: put an unposed street video into a fixed aerial reconstruction and add the street to its splats."""

__version__ = "0.1.0"
