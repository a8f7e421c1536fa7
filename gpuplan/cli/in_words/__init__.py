"""A question in plain words, such as `gpuplan "does llama 3 70b fit on my 4090?"`, and the command that it means."""
