"""From the user's callables to flat, guarded and counted maps."""
