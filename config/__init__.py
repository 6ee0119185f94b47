"""Settings and engine profiles."""
