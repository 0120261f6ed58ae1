"""What the door decides, as declarative rules; pure."""
