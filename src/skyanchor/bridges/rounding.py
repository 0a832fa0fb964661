"""What the compiler may do with the kernels of the bridges, so that every process finds the same digits."""

from __future__ import annotations

ROUNDED = {"nnan", "ninf", "nsz"}
"""Liberties of the compiler that round nothing otherwise. With all of them the process that compiles a parallel kernel
and those that load it afterwards run code of different last digits."""
