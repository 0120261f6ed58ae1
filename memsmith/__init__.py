"""memsmith: governs what AI agents remember."""
