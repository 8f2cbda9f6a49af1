package safetensors

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"
)

const (
	// MaxHeader is the size of the largest header that is read or written, the crate's limit.
	MaxHeader = 100_000_000

	lengthSize  = 8 // bytes of the header's length
	metadataKey = "__metadata__"
)

// Tensor describes a tensor of a file.
type Tensor struct {
	Name   string
	DType  DType
	Shape  []int64 // empty for a scalar
	Offset int64   // of its first byte in the file
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

// header is a header as it was parsed, its tensors in the order of their bytes.
type header struct {
	tensors  []Tensor
	metadata map[string]string // nil if the file has none
}

// parseHeader reads the JSON of a header whose file has so many bytes behind it.
func parseHeader(text []byte, dataSize int64) (header, error) {
	var h header
	if !utf8.Valid(text) {
		at := 0
		for r, n := utf8.DecodeRune(text); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(text[at:]) {
			at += n
		}
		return h, &FormatError{Offset: int64(lengthSize + at), Err: ErrHeaderUTF8}
	}
	s := &scanner{text: text}
	var ranges []byteRange
	err := s.object("the header", func(key string) error {
		if key == metadataKey {
			h.metadata = make(map[string]string)
			return s.object(metadataKey, func(key string) (err error) {
				h.metadata[key], err = s.string("a value of", metadataKey)
				return err
			})
		}
		t, r, err := s.tensor(key)
		h.tensors = append(h.tensors, t)
		ranges = append(ranges, r)
		return err
	})
	if err != nil {
		return h, err
	}
	if s.skipSpace(); s.pos < len(text) {
		return h, s.fail("only spaces behind the header's last '}'")
	}
	return h, h.place(ranges, int64(lengthSize+len(text)), dataSize)
}

// byteRange is where a tensor says its bytes are, counted from the end of the header.
type byteRange struct{ begin, end uint64 }

// tensor reads the description of one tensor.
func (s *scanner) tensor(name string) (t Tensor, r byteRange, err error) {
	t.Name = name
	s.skipSpace()
	start := s.pos
	var hasType, hasShape, hasOffsets bool
	err = s.object("a tensor's description", func(key string) error {
		switch key {
		case "dtype":
			hasType = true
			at := s.pos
			text, err := s.string("the", "dtype")
			if err != nil {
				return err
			}
			d, ok := ParseDType(text)
			if !ok {
				return &FormatError{Tensor: name, Offset: int64(lengthSize + at), Err: ErrUnknownDType,
					Detail: fmt.Sprintf("%q", text)}
			}
			t.DType = d
			return nil
		case "shape":
			hasShape = true
			dims, err := s.numbers("a shape")
			if err != nil {
				return err
			}
			t.Shape = make([]int64, len(dims))
			for i, d := range dims {
				if d > math.MaxInt64 {
					return malformedTensor(name, ErrOverflow, "shape %d", dims)
				}
				t.Shape[i] = int64(d)
			}
			return nil
		case "data_offsets":
			hasOffsets = true
			at := s.pos
			pair, err := s.numbers("data_offsets")
			if err != nil {
				return err
			}
			if len(pair) != 2 {
				return s.failAt(at, ErrHeaderJSON, fmt.Sprintf("data_offsets has %d numbers, expected 2", len(pair)))
			}
			r = byteRange{pair[0], pair[1]}
			return nil
		}
		return s.failAt(s.pos, ErrHeaderJSON, fmt.Sprintf("unknown field %q, expected dtype, shape or data_offsets",
			key))
	})
	if err == nil && !(hasType && hasShape && hasOffsets) {
		err = &FormatError{Tensor: name, Offset: int64(lengthSize + start), Err: ErrHeaderJSON,
			Detail: "expected all of dtype, shape and data_offsets"}
	}
	if e := (*FormatError)(nil); errors.As(err, &e) {
		e.Tensor = name
	}
	return t, r, err
}

// place checks that the tensors cover the data exactly, and sorts them by where they are.
func (h *header) place(ranges []byteRange, dataStart, dataSize int64) error {
	order := make([]int, len(ranges))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(ranges[a].begin, ranges[b].begin), cmp.Compare(ranges[a].end, ranges[b].end))
	})
	sorted := make([]Tensor, 0, len(order))
	at := uint64(0)
	for _, i := range order {
		t, r := h.tensors[i], ranges[i]
		if r.begin != at || r.end < r.begin {
			return malformedTensor(t.Name, ErrOffsets, "data_offsets [%d, %d], expected to begin at %d", r.begin, r.end,
				at)
		}
		size, err := byteSize(t)
		if err != nil {
			return err
		}
		if r.end-r.begin != size {
			return malformedTensor(t.Name, ErrTensorInfo, "%s%d needs %d bytes, data_offsets [%d, %d] hold %d", t.DType,
				t.Shape, size, r.begin, r.end, r.end-r.begin)
		}
		if r.end > uint64(dataSize) {
			return malformedTensor(t.Name, ErrIncomplete, "it ends at byte %d behind the header, the file has %d "+
				"there; was it cut short?", r.end, dataSize)
		}
		t.Offset, t.Size = dataStart+int64(r.begin), int64(size)
		sorted = append(sorted, t)
		at = r.end
	}
	if at != uint64(dataSize) {
		return malformed(ErrIncomplete, "the tensors end at byte %d behind the header, the file has %d there", at,
			dataSize)
	}
	h.tensors = sorted
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
