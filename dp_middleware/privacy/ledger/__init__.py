"""A durable record of what each subject has spent."""
