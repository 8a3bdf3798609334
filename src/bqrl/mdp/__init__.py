"""Models, their files and grids, policies, and Gymnasium environments."""
