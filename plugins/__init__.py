"""The built-in plugins: one file each, none of which imports another."""
