"""What could come next on the command line? Words for a shell, from the commands' options and the names in the catalog."""
