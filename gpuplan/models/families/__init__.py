"""One function a kind of published configuration: its fields to an architecture; `READERS` of each module names them."""
