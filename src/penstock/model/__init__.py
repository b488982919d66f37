"""Values of the domain: frozen dataclasses, no I/O, no Spark."""
