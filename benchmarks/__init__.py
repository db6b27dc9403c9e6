"""What dnc costs, as ratios of times taken side by side in one run."""
