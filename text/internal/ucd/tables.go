package ucd

import (
	_ "embed"
	"encoding/binary"
	"slices"
	"sync"
)

// The files written by the programs in gen. In the strings, each entry is a code point, what it
// maps to, and a zero byte; compositions are triples of two code points and their composition. In
// the byte slices, each run of code points is two uvarints: the distance of its start from that of
// the previous run, and its properties.
var (
	//go:embed zz_canonical.bin
	canonical string // the full canonical decompositions
	//go:embed zz_compatible.bin
	compatible string // the full compatibility decompositions where they differ from the canonical ones
	//go:embed zz_lower.bin
	lower string // the lower-case forms
	//go:embed zz_compositions.bin
	compositions string

	//go:embed zz_runs.bin
	propertyData []byte
	//go:embed zz_graphemes.bin
	graphemeData []byte
	//go:embed zz_scripts.bin
	scriptData []byte
)

// run is a range of code points with the same properties; it extends to the start of the next run.
type run struct{ start, props uint32 }

// runs returns the properties of all code points.
var runs = sync.OnceValue(func() []run { return decode(propertyData) })

func decode(data []byte) []run {
	list := make([]run, 0, len(data)/3)
	start := uint64(0)
	for len(data) > 0 {
		ahead, n := binary.Uvarint(data)
		props, m := binary.Uvarint(data[n:])
		start += ahead
		list = append(list, run{uint32(start), uint32(props)})
		data = data[n+m:]
	}
	return slices.Clip(list)
}
