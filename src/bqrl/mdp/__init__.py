"""Models, their files and grids, and Gymnasium environments."""
