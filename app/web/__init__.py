"""The chat page: static files, and what serves them from memory."""
