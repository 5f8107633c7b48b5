"""Checks of single values at the borders of the package: one sentence, the value, the limit."""


def check_int(name: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse what is not a whole number from `low` to `high` (None: no upper limit).

    Raises: ValueError. True and 1.0 are not whole numbers here: they hide mistakes.
    """
    if type(value) is not int:
        raise ValueError(f"{name} is {value!r}; it must be a whole number")
    if value < low:
        raise ValueError(f"{name} is {value}; it must be at least {low}")
    if high is not None and value > high:
        raise ValueError(f"{name} is {value}; it must be at most {high}")
