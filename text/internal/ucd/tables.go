package ucd

import (
	_ "embed"
	"encoding/binary"
	"slices"
	"sync"
)

// What gen wrote. In the strings every entry is a code point, what it becomes, and a zero;
// compositions are triples, two code points and what they compose to. In the others every run is
// two numbers of varying length: how far its start is behind the start of the run before, and its
// properties.
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

// run holds from its start to the next run's.
type run struct{ start, props uint32 }

// runs are the properties of all code points.
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
