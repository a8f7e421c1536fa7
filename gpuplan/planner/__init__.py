"""From a goal to what to rent or buy: which targets, counts and plans meet it at the least cost, time or number of accelerators."""
