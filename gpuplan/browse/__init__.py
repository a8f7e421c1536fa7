"""Lists, searches, comparisons and differences of spec files: the data shown as data, without estimates."""
