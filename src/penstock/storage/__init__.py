"""Files on disk and in object stores."""
