"""The worlds of an assessment by name, each a suite."""

from orbitcc.eval.assessment.worlds import congestion, hosts, paths, sharing
from orbitcc.eval.assessment.worlds.base import RECORD_INTERVAL_S, AssessmentWorlds

WORLDS: dict[str, AssessmentWorlds] = {
    worlds.name: worlds
    for worlds in (
        congestion.Collapse(),
        congestion.Bufferbloat(),
        congestion.SmallBuffers(),
        sharing.OwnKind(),
        sharing.ShortFlows(),
        sharing.MixedCubic(),
        sharing.MixedReno(),
        sharing.RealTime(),
        congestion.TailDrop(),
        paths.Signals(),
        paths.Wireless(),
        congestion.ManagedQueues(),
        sharing.CoupledQueues(),
        congestion.PersistentLoss(),
        paths.VaryingDelay(),
        congestion.SlowLinks(),
        paths.HighDelay(),
        hosts.Receivers(),
        sharing.Bully(),
        paths.Reordering(),
        paths.Transients(),
        paths.PathChange(),
        hosts.Incast(),
    )
}
"""Name -> worlds, in the order of the RFC."""

__all__ = ["RECORD_INTERVAL_S", "WORLDS", "AssessmentWorlds"]
