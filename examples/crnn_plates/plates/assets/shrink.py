"""Makes templates/*.png from the blank plates of iranian-license-plate-generator: grey, half the size.

python3 shrink.py FOLDER_WITH_THE_ORIGINALS

The renderer needs brightness only, and its pictures are 32 pixels high: 400 x 88 grey loses nothing it could show.
"""

import sys
from pathlib import Path

from PIL import Image

here = Path(__file__).parent / "templates"
for path in [Path(sys.argv[1]) / f"{name}.png" for name in ("artesh", "gov", "police", "savari", "taxi")]:
    plate = Image.open(path).convert("RGBA")
    ground = Image.new("RGBA", plate.size, (255, 255, 255, 255))
    ground.alpha_composite(plate)
    ground.convert("L").resize((400, 88), Image.Resampling.BOX).save(here / path.name, optimize=True)
