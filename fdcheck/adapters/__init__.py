"""Other people's calls and objects, checked by fdcheck: one module for each package."""
