"""One adapter per kind of chat model; none is imported before a model of its kind is met."""
