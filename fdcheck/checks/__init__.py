"""Estimates against claims: what agrees, what does not, and why."""
