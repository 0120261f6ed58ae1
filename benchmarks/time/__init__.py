"""What time costs: reads at past points, and chains that grow."""
