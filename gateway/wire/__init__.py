"""What travels: events (`sse`), chunks (`chunks`), requests (`request`), errors (`render`). All of it is pure."""
