"""How what is optional is installed."""


def installing(extra: str) -> str:
    """The words of a message about what only an extra of the package brings."""
    return f"the extra `{extra}` (in a checkout: make full; with pip: pip install 'orbitcc[{extra}]')"
