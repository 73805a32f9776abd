"""One policy shared by all flows, trained by RLlib (new API stack).

All flows of all worlds feed one network. RLlib samples and learns; these files configure it (`configs`, and
`algorithms` for any algorithm by name), give it a critic that sees more than the policy (`critic`), an env runner that
works on whole arrays (`runner`) and Astraea's TD3 (`td3`), and export what it learned (`learner`). `env_runners = 0`
keeps everything in one process, which is the fastest on a few cores; more of them spread over a Ray cluster.
"""

from orbitcc.training.rllib.configs import DEFAULT_MODULE, MODULE, config
from orbitcc.training.rllib.learner import RLlibLearner, export

__all__ = ["DEFAULT_MODULE", "MODULE", "RLlibLearner", "config", "export"]
