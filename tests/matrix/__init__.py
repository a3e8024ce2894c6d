"""Ask the same question in two ways: rows of options, relations between answers, and planted faults."""
