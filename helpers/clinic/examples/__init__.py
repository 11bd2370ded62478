"""One module per finding, with a sick example and its cure; the catalogue page shows their source."""
