package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gotrainer/gotrainer/safetensors"
)

// raw returns a file with the given header, its correct length, and the given number of bytes of
// data.
func raw(header string, data int) []byte {
	file := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(file, header...), make([]byte, data)...)
}

func parse(file []byte) (*safetensors.Reader, error) {
	return safetensors.NewReader(bytes.NewReader(file), int64(len(file)))
}

const (
	i32x22 = `{"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0,16]}}`
	two    = `{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":`
)

func TestReaderRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		file []byte
		want error
	}{
		// The negative tests of the Rust crate, safetensors/src/tensor.rs at 24b0b28, in its order.
		{"overlapping tensors (json attack)",
			raw(`{"weight_0":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"weight_1":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}`, 16), safetensors.ErrOffsets},
		{"trailing bytes (polyglot file)", append(raw(i32x22, 16), "extra_bogus_data_for_polyglot_file"...),
			safetensors.ErrIncomplete},
		{"missing bytes", raw(i32x22, 14), safetensors.ErrIncomplete},
		{"header larger than the limit", []byte("<\x00\x00\x00\x00\xff\xff\xff" + i32x22),
			safetensors.ErrHeaderTooLarge},
		{"an empty file", nil, safetensors.ErrHeaderTooSmall},
		{"header longer than the file", []byte("<\x00\x00\x00\x00\x00\x00\x00"), safetensors.ErrHeaderLength},
		{"header that is not UTF-8", raw("\xff", 0), safetensors.ErrHeaderUTF8},
		{"header that is not JSON", raw("{", 0), safetensors.ErrHeaderJSON},
		{"shape that needs more bytes than the offsets",
			raw(`{"test":{"dtype":"I32","shape":[2,2],"data_offsets":[0, 4]}}`, 0), safetensors.ErrTensorInfo},
		{"shape whose product overflows",
			raw(`{"test":{"dtype":"I32","shape":[2,18446744073709551614],"data_offsets":[0,16]}}`, 16),
			safetensors.ErrOverflow},
		{"shape whose bytes overflow",
			raw(`{"test":{"dtype":"I32","shape":[2,9223372036854775807],"data_offsets":[0,16]}}`, 16),
			safetensors.ErrOverflow},
		{"half a byte left over", raw(`{"test":{"dtype":"F4","shape":[1,3],"data_offsets":[0,2]}}`, 2),
			safetensors.ErrMisaligned},

		// Further cases.
		{"seven bytes", make([]byte, 7), safetensors.ErrHeaderTooSmall},
		{"length of 2^64-1", bytes.Repeat([]byte{0xff}, 64), safetensors.ErrHeaderTooLarge},
		{"length one beyond the limit", binary.LittleEndian.AppendUint64(nil, safetensors.MaxHeader+1),
			safetensors.ErrHeaderTooLarge},
		{"an empty header", raw("", 0), safetensors.ErrHeaderJSON},
		{"an array", raw("[]", 0), safetensors.ErrHeaderJSON},
		{"bytes behind an empty header", raw("{}", 1), safetensors.ErrIncomplete},
		{"text behind the object", raw("{} {}", 0), safetensors.ErrHeaderJSON},
		{"a zero byte as padding", raw("{}\x00", 0), safetensors.ErrHeaderJSON},
		{"a trailing comma", raw(`{"test":{"dtype":"U8","shape":[],"data_offsets":[0,1]},}`, 1),
			safetensors.ErrHeaderJSON},
		{"a comment", raw(`{/**/}`, 0), safetensors.ErrHeaderJSON},
		{"two tensors of one name",
			raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), safetensors.ErrDuplicateKey},
		{"two tensors of one name, one escaped",
			raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), safetensors.ErrDuplicateKey},
		{"a field twice", raw(`{"a":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}}`, 1),
			safetensors.ErrDuplicateKey},
		{"the first of many keys again",
			raw(`{"__metadata__":{"1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":"","9":"","10":"","1":""}}`, 0),
			safetensors.ErrDuplicateKey},
		{"the tenth of many keys again",
			raw(`{"__metadata__":{"1":"","2":"","3":"","4":"","5":"","6":"","7":"","8":"","9":"","10":"","10":""}}`, 0),
			safetensors.ErrDuplicateKey},
		{"a metadata key twice", raw(`{"__metadata__":{"a":"1","a":"2"}}`, 0), safetensors.ErrDuplicateKey},
		{"metadata twice", raw(`{"__metadata__":{},"__metadata__":{}}`, 0), safetensors.ErrDuplicateKey},
		{"metadata that is no string", raw(`{"__metadata__":{"a":1}}`, 0), safetensors.ErrHeaderJSON},
		{"nested metadata", raw(`{"__metadata__":{"a":{}}}`, 0), safetensors.ErrHeaderJSON},
		{"metadata that is null", raw(`{"__metadata__":null}`, 0), safetensors.ErrHeaderJSON},
		{"an upper-case field", raw(`{"a":{"dtype":"U8","SHAPE":[1],"data_offsets":[0,1]}}`, 1),
			safetensors.ErrHeaderJSON},
		{"an unknown field", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"strides":[1]}}`, 1),
			safetensors.ErrHeaderJSON},
		{"a missing field", raw(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, 1), safetensors.ErrHeaderJSON},
		{"a tensor that is an array", raw(`{"a":["U8",[1],[0,1]]}`, 1), safetensors.ErrHeaderJSON},
		{"an unknown dtype", raw(`{"a":{"dtype":"F128","shape":[1],"data_offsets":[0,16]}}`, 16),
			safetensors.ErrUnknownDType},
		{"a lower-case dtype", raw(`{"a":{"dtype":"u8","shape":[1],"data_offsets":[0,1]}}`, 1),
			safetensors.ErrUnknownDType},
		{"a dtype that is a number", raw(`{"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}}`, 1),
			safetensors.ErrHeaderJSON},
		{"a negative dimension", raw(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}}`, 1),
			safetensors.ErrHeaderJSON},
		{"a negative zero", raw(`{"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}}`, 0),
			safetensors.ErrHeaderJSON},
		{"a fraction", raw(`{"a":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}}`, 1), safetensors.ErrHeaderJSON},
		{"an exponent", raw(`{"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}}`, 1), safetensors.ErrHeaderJSON},
		{"a leading zero", raw(`{"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}}`, 1), safetensors.ErrHeaderJSON},
		{"a number beyond 64 bits", raw(`{"a":{"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1]}}`, 1),
			safetensors.ErrHeaderJSON},
		{"a shape in quotes", raw(`{"a":{"dtype":"U8","shape":["1"],"data_offsets":[0,1]}}`, 1),
			safetensors.ErrHeaderJSON},
		{"one offset", raw(`{"a":{"dtype":"U8","shape":[],"data_offsets":[1]}}`, 1), safetensors.ErrHeaderJSON},
		{"three offsets", raw(`{"a":{"dtype":"U8","shape":[],"data_offsets":[0,1,2]}}`, 1), safetensors.ErrHeaderJSON},
		{"offsets backwards", raw(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[1,0]}}`, 1), safetensors.ErrOffsets},
		{"a hole in front", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2), safetensors.ErrOffsets},
		{"a hole between", raw(two+`[3,5]}}`, 5), safetensors.ErrOffsets},
		{"an overlap by one byte", raw(two+`[1,3]}}`, 3), safetensors.ErrOffsets},
		{"offsets near 2^64",
			raw(`{"a":{"dtype":"U8","shape":[0],"data_offsets":[18446744073709551615,18446744073709551615]}}`, 0),
			safetensors.ErrOffsets},
		{"a tensor of 2^63-1 bytes",
			raw(`{"a":{"dtype":"U8","shape":[1152921504606846975],"data_offsets":[0,1152921504606846975]}}`, 8),
			safetensors.ErrIncomplete},
		{"a control character in a name", raw("{\"a\n\":{}}", 0), safetensors.ErrHeaderJSON},
		{"an unknown escape", raw(`{"\x":{}}`, 0), safetensors.ErrHeaderJSON},
		{"half of a surrogate pair", raw(`{"\ud83d":{}}`, 0), safetensors.ErrHeaderJSON},
		{"a surrogate pair the wrong way round", raw(`{"\ude00\ud83d":{}}`, 0), safetensors.ErrHeaderJSON},
		{"a string without end", raw(`{"a`, 0), safetensors.ErrHeaderJSON},
		{"an escape without end", raw(`{"\u00`, 0), safetensors.ErrHeaderJSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.file)
			var format *safetensors.FormatError
			if !errors.Is(err, c.want) || !errors.As(err, &format) {
				t.Errorf("NewReader(%.100q) = %v, want a FormatError of %v", c.file, err, c.want)
			}
		})
	}
}

func TestReaderAccepts(t *testing.T) {
	for _, c := range []struct {
		name, header string
		data         int
		want         string // of the first tensor
		shape        []int64
	}{
		{"a plain file", i32x22, 16, "test", []int64{2, 2}},
		{"a scalar", `{"test":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}`, 4, "test", []int64{}},
		{"a tensor without elements", `{"test":{"dtype":"I32","shape":[2,0],"data_offsets":[0, 0]}}`, 0, "test",
			[]int64{2, 0}},
		{"space around the object", "\t\n" + i32x22 + "\r \t\n", 16, "test", []int64{2, 2}},
		{"space within", ` { "test" : { "dtype" : "I32" , "shape" : [ 2 , 2 ] , "data_offsets" : [ 0 , 16 ] } } `, 16,
			"test", []int64{2, 2}},
		{"fields in any order", `{"test":{"shape":[4],"data_offsets":[0,4],"dtype":"U8"}}`, 4, "test", []int64{4}},
		{"tensors in any order",
			`{"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`,
			2, "a", []int64{1}},
		{"escapes", `{"\"\\\/\b\f\n\r\t\u0041\ud83d\ude00é":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1,
			"\"\\/\b\f\n\r\tA😀é", []int64{1}},
		{"half-byte elements", `{"test":{"dtype":"F4","shape":[1,2],"data_offsets":[0,1]}}`, 1, "test", []int64{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := parse(raw(c.header, c.data))
			if err != nil {
				t.Fatal(err)
			}
			got := r.Tensors()[0]
			if got.Name != c.want || len(got.Shape) != len(c.shape) || got.Offset != int64(8+len(c.header)) {
				t.Errorf("first tensor = %+v, want %q %v at %d", got, c.want, c.shape, 8+len(c.header))
			}
			for i := range c.shape {
				if got.Shape[i] != c.shape[i] {
					t.Errorf("shape = %v, want %v", got.Shape, c.shape)
				}
			}
		})
	}
}

func TestErrorsSayWhere(t *testing.T) {
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"the byte of a syntax error", raw(`{"a":x}`, 0),
			`tensor "a": the header is not the JSON object that it should be: expected '{' to begin a tensor's description, found 'x' (at byte 13 of the file)`},
		{"both offsets and the tensor", raw(two+`[3,5]}}`, 5),
			`tensor "b": the tensors' bytes overlap or leave a hole: data_offsets [3, 5], expected to begin at 2`},
		{"the needed and the given size", raw(`{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,4]}}`, 4),
			`F32[2 3] needs 24 bytes, data_offsets [0, 4] hold 4`},
		{"the first byte that is not UTF-8", raw("{\"\u00e9\xff", 0), "(at byte 12 of the file)"},
	} {
		if _, err := parse(c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: NewReader = %v, want it to contain %s", c.name, err, c.want)
		}
	}
}

func TestReadInto(t *testing.T) {
	file := raw(two+"[2,4]}}", 0)
	file = append(file, 1, 2, 3, 4)
	r, err := parse(file)
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 2)
	if err := r.ReadInto("b", buffer); err != nil || !bytes.Equal(buffer, []byte{3, 4}) {
		t.Errorf("ReadInto(b) = %v, %v, want [3 4]", buffer, err)
	}
	if err := r.ReadInto("b", make([]byte, 3)); err == nil {
		t.Error("ReadInto took a buffer that is too large")
	}
	if err := r.ReadInto("c", nil); !errors.Is(err, safetensors.ErrNotFound) {
		t.Errorf("ReadInto(c) = %v, want ErrNotFound", err)
	}
}

func TestReaderGivesOutCopies(t *testing.T) {
	r, err := parse(raw(`{"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1))
	if err != nil {
		t.Fatal(err)
	}
	r.Tensors()[0].Shape[0] = 9
	one, _ := r.Tensor("a")
	one.Shape[0] = 9
	r.Metadata()["k"] = "changed"
	if again, _ := r.Tensor("a"); again.Shape[0] != 1 || r.Metadata()["k"] != "v" {
		t.Errorf("a caller changed the reader: %v, %v", again, r.Metadata())
	}
}

// shrunk is a file that has become shorter than its stated size.
type shrunk struct{ io.ReaderAt }

func (s shrunk) ReadAt(p []byte, off int64) (int, error) {
	if off > 60 {
		return 0, io.EOF
	}
	return s.ReaderAt.ReadAt(p, off)
}

func TestReadReportsAFileCutShortLater(t *testing.T) {
	file := raw(i32x22, 16)
	r, err := safetensors.NewReader(shrunk{bytes.NewReader(file)}, int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read("test"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("Read = %v, want io.ErrUnexpectedEOF", err)
	}
}

func TestOpenNamesThePath(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.safetensors")
	if err := os.WriteFile(bad, raw("{", 0), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{bad, dir, filepath.Join(dir, "missing")} {
		if _, err := safetensors.Open(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("Open(%q) = %v, want an error that names it", path, err)
		}
	}
}

// Nothing writes to the pipe: a blocking open would never return.
func TestNamedPipeIsRefusedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	if _, err := safetensors.Open(path); err == nil || !strings.Contains(err.Error(), "named pipe") ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("Open = %v, want %q and the path", err, "named pipe")
	}
}
