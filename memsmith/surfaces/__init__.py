"""Where people and programs meet the library from outside."""
