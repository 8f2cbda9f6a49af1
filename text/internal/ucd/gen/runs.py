"""The form of the tables that are embedded: see tables.go."""


def number(n):
    """An unsigned number of varying length, as Go's encoding/binary writes it."""
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def write(path, props):
    """Writes the properties of all code points, given by a function, as runs, and returns how many there are."""
    data, last, begin, runs = b"", None, 0, 0
    for c in range(0x110000):
        p = props(c)
        if p != last:
            data += number(c - begin) + number(p)
            last, begin, runs = p, c, runs + 1
    with open(path, "wb") as f:
        f.write(data)
    return runs
