"""Speed, measured as ratios in one run; each module is a command."""
