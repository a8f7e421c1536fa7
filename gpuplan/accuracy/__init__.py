"""Published measured runs against the estimates."""
