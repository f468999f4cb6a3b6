"""Check profiles: one TOML file each, read as data."""
