"""The gateway library: takes values, relays token streams; knows no web framework and no settings object."""
