"""Published mechanisms, one per file, and the table of their names."""

from dp_middleware.mechanisms.base import ChannelMechanism, Mechanism
from dp_middleware.mechanisms.custext import CusText, CusTextAggressive, CusTextStrict
from dp_middleware.mechanisms.rantext import RanText, RanTextStrict
from dp_middleware.mechanisms.santext import SanText
from dp_middleware.mechanisms.token_exponential import TokenExponential

MECHANISMS: dict[str, type[ChannelMechanism]] = {
    mechanism.name: mechanism
    for mechanism in (
        TokenExponential,
        SanText,
        CusText,
        CusTextAggressive,
        CusTextStrict,
        RanText,
        RanTextStrict,
    )
}
"""Every mechanism by the name that the command line takes."""

__all__ = [
    "MECHANISMS",
    "ChannelMechanism",
    "CusText",
    "CusTextAggressive",
    "CusTextStrict",
    "Mechanism",
    "RanText",
    "RanTextStrict",
    "SanText",
    "TokenExponential",
]
