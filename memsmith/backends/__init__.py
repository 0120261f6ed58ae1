"""Where memories lie. Backends do not know each other."""
