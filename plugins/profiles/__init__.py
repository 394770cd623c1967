"""The built-in hardware profiles, as YAML data; the model of a profile of one's own."""
