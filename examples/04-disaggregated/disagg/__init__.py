"""Gym, generation and training as three services that talk HTTP, each on a Ray cluster of its own."""
