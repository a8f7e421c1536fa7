"""Training plans as the engines take them: the words of a launch, and what of a plan no argument says."""
