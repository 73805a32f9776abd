"""The papers' claims (`leo.toml`, `geo.toml`), and whether they hold in the results."""

import tomllib
from importlib import resources

from pydantic import ValidationError

from orbitcc.envs.description.model import as_orbitcc_error
from orbitcc.eval.claims.claim import VERDICTS, Claim, ClaimResult, ClaimVerdict
from orbitcc.eval.quantities.evidence import Evidence, Missing


def load(name: str) -> tuple[Claim, ...]:
    """The claims of a paper: `leo` or `geo`."""
    return read(resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def read(text: str) -> tuple[Claim, ...]:
    """The claims of a file. Raises OrbitccError naming the claim and the field that is wrong."""
    data = tomllib.loads(text)
    claims: dict[str, Claim] = {}
    for row in data["claim"]:
        others = [claims[key] for key in row.get("claims", [])]
        try:
            claims[row["key"]] = Claim(**{**row, "claims": others, "words": data["words"]})
        except ValidationError as error:
            raise as_orbitcc_error(error).under(row["key"]) from None
    return tuple(claims.values())


__all__ = ["VERDICTS", "Claim", "ClaimResult", "ClaimVerdict", "Evidence", "Missing", "load", "read"]
