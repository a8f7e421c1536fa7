"""How is a serving engine started, and what does that say of a plan? Command lines read into options, and plans written as them."""
