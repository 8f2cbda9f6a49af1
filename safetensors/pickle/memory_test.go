package pickle_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/peak"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

// whole returns a pickle of nearly the maximum size, made of repeated instructions.
func whole(instructions string) string {
	return head + strings.Repeat(instructions, 30<<20/len(instructions)) + "."
}

// numbered repeats instructions that contain a four-byte number.
func numbered(count int, before, after string) string {
	var b bytes.Buffer
	b.WriteString(head)
	for i := range count {
		b.WriteString(before)
		b.Write(binary.LittleEndian.AppendUint32(nil, uint32(i)))
		b.WriteString(after)
	}
	b.WriteString(".")
	return b.String()
}

// Whatever its instructions, a pickle takes no more than 64 MB in addition to its own bytes.
func TestMemoryOfAHostilePickle(t *testing.T) {
	files := map[string][]byte{}
	for name, code := range map[string]string{
		"values that wait":     whole("N"),
		"dictionaries":         whole("}"),
		"lists in a list":      head + "]" + strings.Repeat("](", 3) + strings.Repeat("]a", 1<<20),
		"tuples of tuples":     head + "N" + strings.Repeat("\x85", 10<<20) + ".",
		"tuples dropped":       head + "](" + strings.Repeat(")\x85", 1<<20) + "e.",
		"values put aside":     numbered(3<<20, "Nr", ""),
		"numbers in a list":    head + "](" + strings.Repeat("M\xff\xffM\xff\xffe(", 1<<20) + ".",
		"one list that grows":  head + "]" + strings.Repeat("M\xff\xffa", 3<<20) + ".",
		"keys":                 numbered(1<<20, "}J", "Ns"),
		"keys of one":          strings.Replace(numbered(1<<20, "J", "Ns"), head, head+"}", 1),
		"a number of 16 MB":    head + "\x8b\x00\x00\x00\x01" + strings.Repeat("\x7f", 16<<20) + ".",
		"numbers of 255 bytes": whole("\x8a\xff" + strings.Repeat("\x7f", 255)),
		"strings":              whole("X\x10\x00\x00\x00" + strings.Repeat("s", 16)),
		"a string of 30 MB":    head + "X\x00\x00\xe0\x01" + strings.Repeat("s", 30<<20) + ".",
		"storages":             whole(store),
		"tensors of one list":  head + "](" + strings.Repeat(tensor("K\x00", ")", ")"), 200_000) + "e.",
		"one tensor many times": head + "](" + tensor("K\x00", ")", ")") + "q\x05" + strings.Repeat("h\x05", 250_000) +
			"e.",
		"one tensor under long names": head + "}X\xa0\x0f\x00\x00" + strings.Repeat("k", 4000) + "](" +
			tensor("K\x00", ")", ")") + "q\x05" + strings.Repeat("h\x05", 20000) + "es.",
	} {
		files[name] = file(t, zip.Store, code)
	}
	var many bytes.Buffer
	z := zip.NewWriter(&many)
	add(t, z, "a/data.pkl", zip.Store, []byte(head+"}."))
	for i := range 400_000 {
		add(t, z, fmt.Sprint(i), zip.Store, nil)
	}
	require.NoError(t, z.Close())
	files["a zip of many files"] = many.Bytes()
	for name, content := range files {
		t.Run(name, func(t *testing.T) {
			var err error
			var r *pickle.Reader
			more := peak.Memory(t, func() { r, err = pickle.NewReader(bytes.NewReader(content), int64(len(content))) })
			size := int64(min(len(content), 32<<20)) // of the pickle, which is read into memory
			t.Logf("%d MB besides the %d of the file: %v", (more-size)>>20, size>>20, err)
			assert.Less(t, more-size, int64(64<<20))
			if err == nil {
				assert.NotNil(t, r.Value())
				return
			}
			assert.True(t, errors.Is(err, pickle.ErrTooLarge) || errors.Is(err, pickle.ErrMalformed), err)
		})
	}
}

// The limits allow the largest state dicts.
func TestTwentyThousandTensorsAreRead(t *testing.T) {
	const count = 20_000
	var entries []safetensors.Entry
	for i := range count {
		entries = append(entries, safetensors.Entry{
			Name:  fmt.Sprintf("model.layers.%d.block_sparse_moe.experts.%d.w1.weight", i/8, i%8),
			DType: safetensors.F32,
			Shape: []int64{1, 1}, Data: safetensors.Bytes(make([]byte, 4)),
		})
	}
	state, err := pickle.StateDict(entries)
	require.NoError(t, err)
	var content bytes.Buffer
	require.NoError(t, pickle.Write(&content, "archive", state))
	r, err := pickle.NewReader(bytes.NewReader(content.Bytes()), int64(content.Len()))
	require.NoError(t, err)
	assert.Len(t, r.Tensors(), count)
}
