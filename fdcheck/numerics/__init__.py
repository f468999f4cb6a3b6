"""From points to estimates with error bars."""
