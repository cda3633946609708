"""The kinds of adapters by their sections; the one list of them."""

from collections.abc import Mapping

from modules.methods.adapters.ia3 import Ia3Kind
from modules.methods.adapters.kind import AdapterKind
from modules.methods.adapters.loha import LohaKind
from modules.methods.adapters.lokr import LokrKind
from modules.methods.adapters.lora import DoraKind, LoraKind
from modules.methods.adapters.oft import OftKind
from onetrainer.config.methods.adapter_section import AdapterSection
from onetrainer.config.methods.adapters import Adapter
from onetrainer.config.methods.ia3 import Ia3
from onetrainer.config.methods.low_rank import Dora, LoHa, LoKr, Lora
from onetrainer.config.methods.oft import Oft

KINDS: Mapping[type[AdapterSection], type[AdapterKind]] = {
    Lora: LoraKind,
    Dora: DoraKind,
    LoHa: LohaKind,
    LoKr: LokrKind,
    Oft: OftKind,
    Ia3: Ia3Kind,
}


def kind_of(section: Adapter) -> AdapterKind:
    """Return the kind that a config trains, with its settings."""
    return KINDS[type(section)](section)
