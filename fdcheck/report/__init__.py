"""Renderings of one immutable result."""
