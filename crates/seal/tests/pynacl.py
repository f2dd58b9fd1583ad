"""Opens a box that our code made and makes one that our code opens, with PyNaCl, which is libsodium itself.

Reads {"private", "sealed", "public", "frame"} from standard input, in base64 except for the frame; prints what was in
the box and a box of the frame.
"""

import json
import sys
from base64 import b64decode, b64encode

from nacl.public import PrivateKey, PublicKey, SealedBox

given = json.load(sys.stdin)
private = PrivateKey(b64decode(given["private"]))
opened = SealedBox(private).decrypt(b64decode(given["sealed"]))
sealed = SealedBox(PublicKey(b64decode(given["public"]))).encrypt(given["frame"].encode())
json.dump(
    {
        "opened": opened.decode(),
        "sealed": b64encode(sealed).decode(),
        "public": b64encode(bytes(private.public_key)).decode(),
    },
    sys.stdout,
)
