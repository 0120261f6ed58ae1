"""The governed write path and the reads that go with it, on SQLite."""
