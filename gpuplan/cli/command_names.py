"""What are the commands called, and what is each for? Read before anything else, so nothing else is imported here."""

COMMANDS = {
    "fit": "Does a model fit, and with how much room",
    "train": "How fast and how long is a training run, and what does it cost",
    "serve": "How fast is serving, how many users fit, what do tokens cost",
    "plan": "From a goal to the hardware, count and plan that reach it best",
    "what-runs": "Which models run on a machine, how fast, and up to which context",
    "compare": "Put the same question to several models, machines or engines",
    "explain": "Show the working of any figure, or a formula with its source",
    "calc": "Work out one formula with your values, or solve it for one of them",
    "run": "Ask every scenario of a file, and check what it requires",
    "specs": "List, show and check accelerators, systems, instances and prices",
    "models": "List and show models, and read checkpoints",
    "prices": "List and check prices, and import those of other catalogs",
    "calibrate": "Measure the accelerator in this machine, so that estimates use it",
    "accuracy": "How far are estimates from measured runs, published or your own",
    "doctor": "Check the installation and say where specs are found",
    "mcp": "Answer assistants: the same questions as tools of the protocol MCP",
    "completion": "Make TAB complete commands, options and names in your shell",
}
"""Name and one line of help; the first sentence of each command's own help says more."""
