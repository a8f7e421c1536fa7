"""How does gpuplan touch files and terminals? Everything is read within bounds, written whole or not at all, and shown as it is."""
