"""Projects in a notebook: `penstock.open`. Plans, runs and inspects through the engine, and shows readable tables."""
