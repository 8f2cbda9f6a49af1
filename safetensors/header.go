package safetensors

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	// MaxHeader is the size of the largest header that is read or written, which is the crate's
	// limit.
	MaxHeader = 100_000_000
	// MaxTensors is the largest number of tensors in a file. The largest models have fewer than a
	// hundred thousand, in many files.
	MaxTensors = 1 << 18
	// MaxDims is the largest number of dimensions of a tensor, which is PyTorch's limit.
	MaxDims = 64

	lengthSize  = 8 // bytes of the header's length
	metadataKey = "__metadata__"
)

// Tensor describes a tensor of a file.
type Tensor struct {
	Name   string
	DType  DType
	Shape  []int64 // empty for a scalar
	Offset int64   // offset of its first byte in the file
	Size   int64   // in bytes
}

// Elements returns the number of elements.
func (t Tensor) Elements() int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// header is a parsed header; its tensors are in the order of their bytes.
type header struct {
	tensors  []Tensor
	byName   map[string]int    // index into tensors
	metadata map[string]string // nil if the file has none
}

// parseHeader parses the JSON of a header that dataSize bytes follow in the file. Names are
// substrings of the text, to save memory.
func parseHeader(text string, dataSize int64) (header, error) {
	var h header
	if !utf8.ValidString(text) {
		at := 0
		for r, n := utf8.DecodeRuneInString(text); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRuneInString(
			text[at:]) {
			at += n
		}
		return h, &FormatError{Offset: int64(lengthSize + at), Err: ErrHeaderUTF8}
	}
	s := &scanner{text: text}
	expected := min(strings.Count(text, `"dtype"`), MaxTensors) // allocate once, since growing would double the memory
	h.tensors, h.byName = make([]Tensor, 0, expected), make(map[string]int, expected)
	err := s.object("the header", func(key string, at int) error {
		_, twice := h.byName[key]
		switch {
		case twice || key == metadataKey && h.metadata != nil:
			return s.duplicate(key, "the header", at)
		case key == metadataKey:
			return h.readMetadata(s)
		case len(h.tensors) == MaxTensors:
			return s.failAt(at, ErrTooMany, fmt.Sprintf("the header has more than %d tensors", MaxTensors))
		}
		t, err := s.tensor(key)
		h.byName[key] = len(h.tensors)
		h.tensors = append(h.tensors, t)
		return err
	})
	if err != nil {
		return h, err
	}
	if s.skipSpace(); s.pos < len(text) {
		return h, s.fail("only spaces behind the header's last '}'")
	}
	return h, h.place(int64(lengthSize+len(text)), dataSize)
}

// readMetadata reads the strings under __metadata__.
func (h *header) readMetadata(s *scanner) error {
	h.metadata = make(map[string]string)
	return s.object(metadataKey, func(key string, at int) (err error) {
		if _, twice := h.metadata[key]; twice {
			return s.duplicate(key, metadataKey, at)
		}
		h.metadata[key], err = s.string("a value of", metadataKey)
		return err
	})
}

// descriptionKeys lists the keys of a tensor's description; each must occur once.
var descriptionKeys = [...]string{"dtype", "shape", "data_offsets"}

// tensor reads the description of a tensor. Until place has checked them, Offset and Size hold the
// bits of the two data_offsets, which count from the end of the header.
func (s *scanner) tensor(name string) (t Tensor, err error) {
	t.Name = name
	s.skipSpace()
	start := s.pos
	const what = "a tensor's description"
	found := 0
	var seen [len(descriptionKeys)]bool
	err = s.object(what, func(key string, at int) (err error) {
		i := slices.Index(descriptionKeys[:], key)
		if i < 0 {
			return s.failAt(s.pos, ErrHeaderJSON, fmt.Sprintf("unknown field %q, expected dtype, shape or data_offsets",
				key))
		}
		if seen[i] {
			return s.duplicate(key, what, at)
		}
		seen[i] = true
		found++
		switch key {
		case "dtype":
			t.DType, err = s.dtype()
		case "shape":
			t.Shape, err = s.shape()
		case "data_offsets":
			t.Offset, t.Size, err = s.offsets()
		}
		return err
	})
	if err == nil && found < len(seen) {
		err = s.failAt(start, ErrHeaderJSON, "expected all of dtype, shape and data_offsets")
	}
	if e := (*FormatError)(nil); errors.As(err, &e) {
		e.Tensor = name
	}
	return t, err
}

func (s *scanner) dtype() (DType, error) {
	at := s.pos
	text, err := s.string("the", "dtype")
	if err != nil {
		return 0, err
	}
	d, ok := ParseDType(text)
	if !ok {
		return 0, s.failAt(at, ErrUnknownDType, fmt.Sprintf("%q", text))
	}
	return d, nil
}

func (s *scanner) shape() ([]int64, error) {
	dims, err := s.numbers("a shape", MaxDims)
	if err != nil {
		return nil, err
	}
	shape := make([]int64, len(dims))
	for i, d := range dims {
		if d > math.MaxInt64 {
			return nil, malformed(ErrOverflow, "shape %d", dims)
		}
		shape[i] = int64(d)
	}
	return shape, nil
}

func (s *scanner) offsets() (begin, end int64, err error) {
	at := s.pos
	pair, err := s.numbers("data_offsets", MaxDims)
	if err != nil {
		return 0, 0, err
	}
	if len(pair) != 2 {
		return 0, 0, s.failAt(at, ErrHeaderJSON, fmt.Sprintf("data_offsets has %d numbers, expected 2", len(pair)))
	}
	return int64(pair[0]), int64(pair[1]), nil
}

// place sorts the tensors by position and checks that they cover the data exactly.
func (h *header) place(dataStart, dataSize int64) error {
	slices.SortStableFunc(h.tensors, func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(uint64(a.Offset), uint64(b.Offset)), cmp.Compare(uint64(a.Size), uint64(b.Size)))
	})
	at := uint64(0)
	for i := range h.tensors {
		t := &h.tensors[i]
		begin, end := uint64(t.Offset), uint64(t.Size)
		if begin != at || end < begin {
			return malformedTensor(t.Name, ErrOffsets, "data_offsets [%d, %d], expected to begin at %d", begin, end, at)
		}
		size, err := byteSize(*t)
		if err != nil {
			return err
		}
		if end-begin != size {
			return malformedTensor(t.Name, ErrTensorInfo, "%s%d needs %d bytes, data_offsets [%d, %d] hold %d", t.DType,
				t.Shape, size, begin, end, end-begin)
		}
		if end > uint64(dataSize) {
			return malformedTensor(t.Name, ErrIncomplete, "it ends at byte %d behind the header, the file has %d "+
				"there; was it cut short?", end, dataSize)
		}
		t.Offset, t.Size = dataStart+int64(begin), int64(size)
		at = end
		h.byName[t.Name] = i
	}
	if at != uint64(dataSize) {
		return malformed(ErrIncomplete, "the tensors end at byte %d behind the header, the file has %d there", at,
			dataSize)
	}
	return nil
}

// byteSize returns how many bytes the tensor's dtype and shape need.
func byteSize(t Tensor) (uint64, error) {
	n := uint64(1)
	for _, d := range t.Shape {
		if d < 0 {
			return 0, malformedTensor(t.Name, ErrTensorInfo, "shape %d has a negative dimension", t.Shape)
		}
		var over uint64
		if over, n = bits.Mul64(n, uint64(d)); over != 0 {
			return 0, malformedTensor(t.Name, ErrOverflow, "shape %d", t.Shape)
		}
	}
	over, width := bits.Mul64(n, uint64(t.DType.Bits()))
	if over != 0 {
		return 0, malformedTensor(t.Name, ErrOverflow, "shape %d of %s", t.Shape, t.DType)
	}
	if width%8 != 0 {
		return 0, malformedTensor(t.Name, ErrMisaligned, "shape %d of %s has %d bits", t.Shape, t.DType, width)
	}
	return width / 8, nil
}
