"""What are the commands called, and what is each for? Read before anything else, so nothing else is imported here."""

COMMANDS = {
    "fit": "Does a model fit, and with how much room",
    "train": "How fast, how long and how dear is a training run",
    "serve": "How fast and how dear is serving, and how many users fit",
    "plan": "From a goal to the hardware, count and plan that reach it best",
    "what-runs": "Which models run on this machine, how fast, up to which context",
    "explain": "Show the working of any figure, or a formula with its source",
    "calc": "Work out one formula with your values, or solve it for one of them",
    "compare": "Put the same question to several accelerators side by side",
    "run": "Ask every scenario of a file, and check what it requires",
    "specs": "List, show and check accelerators, systems, instances and prices",
    "prices": "List and check prices, and import those of other catalogs",
    "calibrate": "Measure the accelerator in this machine, so that estimates use it",
    "accuracy": "How far are estimates from measured runs, published or your own",
    "models": "List and show models, and read checkpoints",
    "doctor": "Check the installation and say where specs are found",
    "mcp": "Answer assistants: the same questions as tools of the protocol MCP",
    "completion": "Make TAB complete commands, options and names in your shell",
}
"""Name and one line of help; the first sentence of each command's own help says more."""
