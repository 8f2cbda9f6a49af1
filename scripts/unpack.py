"""unpack.py ARCHIVE FOLDER PATTERN... --without PATTERN...: unpacks the files of a zip or wheel that match.

install_libtorch.sh calls it: a wheel of half a gigabyte is read once and only what is needed is written. In a pattern,
* matches slashes too, as it does for unzip. The archive's check sums are verified; nothing is imported or run.
"""

import fnmatch
import sys
import zipfile


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def main(archive, folder, *patterns):
    split = patterns.index("--without")
    wanted, unwanted = patterns[:split], patterns[split + 1 :]
    try:
        with zipfile.ZipFile(archive) as z:
            for name in z.namelist():
                if matches(name, wanted) and not matches(name, unwanted):
                    z.extract(name, folder)  # refuses to leave the folder
    except (zipfile.BadZipFile, OSError) as e:
        sys.exit(f"{archive}: {e}")


main(*sys.argv[1:])
