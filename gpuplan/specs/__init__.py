"""Hardware, systems, instances, prices, engines and measurements: strict data files and the catalog over them."""
