"""Looking at tables and at the machine, without running anything."""
