"""gpuplan for assistants: its questions as tools of the Model Context Protocol, read-only and bounded."""
