"""Training by a recipe, on one machine or many, and what is kept of it."""
