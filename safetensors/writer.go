package safetensors

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Entry is a tensor to write.
type Entry struct {
	Name  string
	DType DType
	Shape []int64 // empty for a scalar

	// Data writes the tensor's bytes, little-endian and in C order, exactly as many as DType and
	// Shape require. It is called once, when it is the tensor's turn, so that tensors can be
	// fetched from a device one at a time. For tensors in memory, use [Bytes].
	Data func(w io.Writer) error
}

// Bytes returns an [Entry.Data] that writes b.
func Bytes(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

// Write writes a file with the given tensors, in the order of the format rather than the given
// one. Nil metadata omits __metadata__.
func Write(w io.Writer, entries []Entry, metadata map[string]string) error {
	sorted, sizes, err := arrange(entries)
	if err != nil {
		return err
	}
	text, err := encodeHeader(sorted, sizes, metadata)
	if err != nil {
		return err
	}
	total := int64(len(text))
	for _, size := range sizes {
		total += size
	}
	reserve(w, total)
	out := bufio.NewWriterSize(w, 1<<16)
	out.Write(text) // a bufio.Writer keeps its first error for Flush
	for i, e := range sorted {
		counted := &countingWriter{w: out, left: sizes[i]}
		if err := e.Data(counted); err != nil {
			return fmt.Errorf("safetensors: cannot write tensor %q: %w", e.Name, err)
		}
		if counted.left != 0 {
			return malformedTensor(e.Name, errUnequalByteSize, "%d of %d are missing", counted.left, sizes[i])
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("safetensors: %w", err)
	}
	return nil
}

// arrange checks the entries and returns them in the order of the format with their sizes.
func arrange(entries []Entry) ([]Entry, []int64, error) {
	if len(entries) > MaxTensors {
		return nil, nil, malformed(ErrTooMany, "%d tensors; want at most %d", len(entries), MaxTensors)
	}
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int {
		return cmp.Or(-cmp.Compare(a.DType, b.DType), cmp.Compare(a.Name, b.Name))
	})
	sizes := make([]int64, len(sorted))
	names := make(map[string]struct{}, len(sorted))
	var total uint64
	for i, e := range sorted {
		if _, ok := names[e.Name]; ok {
			return nil, nil, malformedTensor(e.Name, ErrDuplicateKey, "two entries have this name")
		}
		names[e.Name] = struct{}{}
		switch {
		case e.Name == metadataKey:
			return nil, nil, malformedTensor(e.Name, errReservedName, "")
		case !utf8.ValidString(e.Name):
			return nil, nil, malformedTensor(e.Name, ErrHeaderUTF8, "the name is not")
		case !e.DType.Valid():
			return nil, nil, malformedTensor(e.Name, ErrUnknownDType, "DType(%d)", e.DType)
		case len(e.Shape) > MaxDims:
			return nil, nil, malformedTensor(e.Name, ErrTooMany, "%d dimensions; want at most %d", len(e.Shape),
				MaxDims)
		case e.Data == nil:
			return nil, nil, malformedTensor(e.Name, errNoData, "")
		}
		size, err := byteSize(Tensor{Name: e.Name, DType: e.DType, Shape: e.Shape})
		if err != nil {
			return nil, nil, err
		}
		if total += size; total > math.MaxInt64-MaxHeader-lengthSize {
			return nil, nil, malformedTensor(e.Name, ErrOverflow, "the tensors up to this one have %d bytes", total)
		}
		sizes[i] = int64(size)
	}
	return sorted, sizes, nil
}

// encodeHeader returns the bytes of a file before the first tensor.
func encodeHeader(sorted []Entry, sizes []int64, metadata map[string]string) ([]byte, error) {
	text := make([]byte, lengthSize, lengthSize+64+96*len(sorted))
	text = append(text, '{')
	if metadata != nil {
		text = append(appendString(text, metadataKey), ":{"...)
		for i, key := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
				return nil, malformed(ErrHeaderUTF8, "metadata %q: %q is not", key, metadata[key])
			}
			if i > 0 {
				text = append(text, ',')
			}
			text = appendString(append(appendString(text, key), ':'), metadata[key])
		}
		text = append(text, '}')
	}
	at := int64(0)
	for i, e := range sorted {
		if i > 0 || metadata != nil {
			text = append(text, ',')
		}
		text = append(appendString(text, e.Name), `:{"dtype":"`...)
		text = append(text, e.DType.String()...)
		text = append(text, `","shape":[`...)
		for k, d := range e.Shape {
			if k > 0 {
				text = append(text, ',')
			}
			text = strconv.AppendInt(text, d, 10)
		}
		text = append(text, `],"data_offsets":[`...)
		text = append(strconv.AppendInt(text, at, 10), ',')
		at += sizes[i]
		text = append(strconv.AppendInt(text, at, 10), "]}"...)
	}
	text = append(text, '}')
	for len(text)%8 != 0 { // so that the tensors' bytes are aligned
		text = append(text, ' ')
	}
	n := len(text) - lengthSize
	if n > MaxHeader {
		return nil, malformed(ErrHeaderTooLarge, "it would have %d bytes", n)
	}
	binary.LittleEndian.PutUint64(text, uint64(n))
	return text, nil
}

// appendString appends a string as JSON with the minimal escapes of serde_json, and so of Python's
// files.
func appendString(text []byte, s string) []byte {
	const hex = "0123456789abcdef"
	text = append(text, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			text = append(text, '\\', c)
		case '\b':
			text = append(text, `\b`...)
		case '\f':
			text = append(text, `\f`...)
		case '\n':
			text = append(text, `\n`...)
		case '\r':
			text = append(text, `\r`...)
		case '\t':
			text = append(text, `\t`...)
		default:
			if c < ' ' {
				text = append(text, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			} else {
				text = append(text, c)
			}
		}
	}
	return append(text, '"')
}

// countingWriter accepts at most the bytes of one tensor.
type countingWriter struct {
	w    io.Writer
	left int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		return 0, fmt.Errorf("%w: %d bytes where %d are left", errUnequalByteSize, len(p), c.left)
	}
	n, err := c.w.Write(p)
	c.left -= int64(n)
	return n, err
}
