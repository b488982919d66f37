"""penstock.yml and definition files become specs. User code is loaded here, inside an error boundary."""
