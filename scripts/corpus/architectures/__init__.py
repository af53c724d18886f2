"""The architectures, one file a family."""

from corpus.architectures.decoders import DECODERS
from corpus.architectures.encoders import ENCODERS
from corpus.architectures.layers import LAYERS
from corpus.architectures.pairs import ENCODER_DECODERS
from corpus.architectures.pretrained import PRETRAINED
from corpus.architectures.signals import SIGNALS
from corpus.architectures.variants import VARIANTS
from corpus.entry import Architecture

ARCHITECTURES: tuple[Architecture, ...] = (
    *ENCODERS,
    *DECODERS,
    *ENCODER_DECODERS,
    *SIGNALS,
    *LAYERS,
    *PRETRAINED,
    *VARIANTS,
)


def by_name() -> dict[str, Architecture]:
    """Return name -> architecture, of those that are not skipped."""
    return {entry.name: entry for entry in ARCHITECTURES if entry.skipped is None}
