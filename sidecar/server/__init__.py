"""What every HTTP port shares: listening, limits, headers, errors."""
