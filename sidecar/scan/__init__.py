"""The scan pipeline: layers in order, one verdict."""
