"""The choice among all plans that serve a work: by a model, or by measurements that are kept; no mesh, no form."""

from femgpu.tune.choose import Offer, bounded, default_first, fastest, offered, ranked
from femgpu.tune.store import Winner, export_winners, import_winners, load, store, winners

__all__ = [
    "Offer",
    "Winner",
    "bounded",
    "default_first",
    "export_winners",
    "fastest",
    "import_winners",
    "load",
    "offered",
    "ranked",
    "store",
    "winners",
]
