"""A model as a whole, or two side by side, on one page that can be checked."""
