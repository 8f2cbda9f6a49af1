package safetensors_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/peak"
	"github.com/gotrainer/gotrainer/safetensors"
)

// headerFile writes a file without data whose header has about the given size and at most count
// numbered members.
func headerFile(t *testing.T, before, after string, count, size int, member func(i int) string) string {
	t.Helper()
	var text strings.Builder
	text.WriteString(before)
	for i := 0; i < count && text.Len() < size; i++ {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(member(i))
	}
	text.WriteString(after)
	path := filepath.Join(t.TempDir(), "x.safetensors")
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(text.Len())), text.String()...)
	require.NoError(t, os.WriteFile(path, file, 0o600))
	return path
}

// However hostile a header is, it takes no more than 64 MB in addition to its own bytes.
func TestMemoryOfAHostileHeader(t *testing.T) {
	const size, all = 40_000_000, 1 << 30
	empty := `:{"dtype":"F32","shape":[0],"data_offsets":[0,0]}`
	pad := strings.Repeat("x", 90)
	for _, c := range []struct {
		name          string
		before, after string
		count         int
		member        func(i int) string
		err           error
	}{
		{"a million tensors", "{", "}", all, func(i int) string { return fmt.Sprintf(`"t%d"%s`, i, empty) },
			safetensors.ErrTooMany},
		{"as many tensors as are allowed, with long names", "{", "}", safetensors.MaxTensors,
			func(i int) string { return fmt.Sprintf(`"%s%d"%s`, pad, i, empty) }, nil},
		{"eight million metadata", `{"__metadata__":{`, "}}", all, func(i int) string {
			return fmt.Sprintf(`"%d":""`, i)
		},
			safetensors.ErrTooMany},
		{"as many metadata as are allowed", `{"__metadata__":{`, "}}", safetensors.MaxTensors,
			func(i int) string { return fmt.Sprintf(`"%d":"%s"`, i, pad) }, nil},
		{"metadata with escapes", `{"__metadata__":{`, "}}", safetensors.MaxTensors,
			func(i int) string { return fmt.Sprintf(`"%d":"\n%s"`, i, pad) }, safetensors.ErrTooMany},
		{"one text of escapes", `{"__metadata__":{"a":"`, `"}}`, all, func(int) string {
			return strings.Repeat(`\n`, 500)
		},
			safetensors.ErrTooMany},
		{"one long name", `{"`, `"` + empty + "}", all, func(int) string { return pad }, nil},
		{"a tensor of a million dimensions", `{"a":{"dtype":"F32","data_offsets":[0,0],"shape":[0,`, "]}}", 1_000_000,
			func(int) string { return "1" }, safetensors.ErrTooMany},
		{"spaces", "{" + strings.Repeat(" ", size), "}", 0, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := headerFile(t, c.before, c.after, c.count, size, c.member)
			info, err := os.Stat(path)
			require.NoError(t, err)
			more := peak.Memory(t, func() {
				var f *safetensors.File
				if f, err = safetensors.Open(path); err == nil {
					err = f.Close()
				}
			})
			require.ErrorIs(t, err, c.err)
			t.Logf("%d MB besides the %d of the header", (more-info.Size())>>20, info.Size()>>20)
			assert.Less(t, more-info.Size(), int64(64<<20))
		})
	}
}

func TestWriterRefusesWhatTheReaderWould(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	entry := safetensors.Entry{Name: "a", DType: safetensors.U8, Shape: make([]int64, safetensors.MaxDims+1),
		Data: safetensors.Bytes(nil)}
	require.ErrorIs(t, safetensors.WriteFile(path, []safetensors.Entry{entry}, nil), safetensors.ErrTooMany)
	entry.Shape = entry.Shape[1:]
	require.NoError(t, safetensors.WriteFile(path, []safetensors.Entry{entry}, nil))
	many := make([]safetensors.Entry, safetensors.MaxTensors+1)
	require.ErrorIs(t, safetensors.WriteFile(path, many, nil), safetensors.ErrTooMany)
}
