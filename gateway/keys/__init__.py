"""Who may ask: keys, as they are kept and as they are checked. The secret itself is shown once and kept nowhere."""

from gateway.keys.key import Key, Rights, mint
from gateway.keys.ring import Keyring

__all__ = ["Key", "Keyring", "Rights", "mint"]
