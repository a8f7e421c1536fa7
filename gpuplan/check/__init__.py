"""The linter of spec files, one file for each group of rules: is anything wrong against schema, each other, or physics?"""
