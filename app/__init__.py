"""The service: turns HTTP into calls of the gateway library."""
