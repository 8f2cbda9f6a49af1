package inflate

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contents returns various data: noise, text, runs, short patterns, and a skewed alphabet whose
// longest codes have 15 bits.
func contents() map[string][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	noise, skewed := make([]byte, 70_000), make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for i := range skewed {
		skewed[i] = byte(min(random.ExpFloat64()*8, 255))
	}
	all := map[string][]byte{
		"empty": {}, "one": {7}, "noise": noise, "skewed": skewed, "zeros": make([]byte, 100_000),
		"text": bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog; "), 900),
		"far":  append(append(bytes.Clone(noise[:32_000]), skewed[:500]...), noise[:32_000]...),
	}
	for n := 2; n < 10; n++ {
		all[fmt.Sprint("pattern of ", n)] = bytes.Repeat(noise[:n], 5000)
	}
	return all
}

func packed(t testing.TB, content []byte, level int) []byte {
	var b bytes.Buffer
	z, err := zlib.NewWriterLevel(&b, level)
	require.NoError(t, err)
	_, err = z.Write(content)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

// unpack calls Zlib with slack after the input, filled with ones, and after the output.
func unpack(stream []byte, size int) ([]byte, error) {
	ones := bytes.Repeat([]byte{0xff}, Slack)
	out := make([]byte, size+Slack)
	err := Zlib(out, size, append(bytes.Clone(stream), ones...), len(stream))
	return out[:size], err
}

func TestUnpacksWhatZlibPacks(t *testing.T) {
	for name, content := range contents() {
		for _, level := range []int{zlib.NoCompression, zlib.BestSpeed, zlib.DefaultCompression, zlib.BestCompression,
			zlib.HuffmanOnly} {
			t.Run(fmt.Sprint(name, "/", level), func(t *testing.T) {
				stream := packed(t, content, level)
				got, err := unpack(stream, len(content))
				require.NoError(t, err)
				assert.True(t, bytes.Equal(content, got))

				_, err = unpack(stream, len(content)+1)
				require.ErrorIs(t, err, ErrStream, "less than expected")
				if len(content) > 0 {
					_, err = unpack(stream, len(content)-1)
					require.ErrorIs(t, err, ErrStream, "more than expected")
				}
				_, err = unpack(append(bytes.Clone(stream), 0), len(content))
				require.ErrorIs(t, err, ErrStream, "a byte behind the stream")
				for cut := range min(len(stream), 300) {
					_, err = unpack(stream[:len(stream)-1-cut], len(content))
					require.ErrorIs(t, err, ErrStream, "cut short")
				}
			})
		}
	}
}

// FuzzZlib compares Zlib with compress/zlib: whatever Zlib unpacks, compress/zlib must unpack to
// the same, and Zlib must unpack whatever compress/zlib packed. The fuzz test corrects the
// checksum, without which hardly any input would be accepted.
func FuzzZlib(f *testing.F) {
	for name, content := range contents() {
		content = content[:min(len(content), 3000)]
		f.Add(packed(f, content, zlib.DefaultCompression), len(content))
		f.Add(packed(f, content, zlib.HuffmanOnly), len(content))
		if name == "text" {
			f.Add(packed(f, content, zlib.NoCompression), len(content))
		}
	}
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		if size < 0 || size > 1<<20 || len(stream) < 6 {
			return
		}
		unpacked, _ := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(stream[2:])), 1<<20))
		stream = bytes.Clone(stream)
		binary.BigEndian.PutUint32(stream[len(stream)-4:], adler32.Checksum(unpacked))
		got, err := unpack(stream, size)
		if err == nil {
			z, err := zlib.NewReader(bytes.NewReader(stream))
			require.NoError(t, err)
			want, err := io.ReadAll(z)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		sound := packed(t, stream, zlib.DefaultCompression)
		got, err = unpack(sound, len(stream))
		require.NoError(t, err)
		require.Equal(t, stream, got)
	})
}

func BenchmarkZlib(b *testing.B) {
	content := contents()["skewed"][:10_000]
	stream := packed(b, content, zlib.DefaultCompression)
	in, out := append(bytes.Clone(stream), make([]byte, Slack)...), make([]byte, len(content)+Slack)
	b.SetBytes(int64(len(content)))
	b.Run("here", func(b *testing.B) {
		b.SetBytes(int64(len(content)))
		for b.Loop() {
			if err := Zlib(out, len(content), in, len(stream)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("compress", func(b *testing.B) {
		b.SetBytes(int64(len(content)))
		r := bytes.NewReader(stream)
		z, err := zlib.NewReader(r)
		require.NoError(b, err)
		for b.Loop() {
			r.Reset(stream)
			if err := z.(zlib.Resetter).Reset(r, nil); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(z, out[:len(content)]); err != nil {
				b.Fatal(err)
			}
		}
	})
}
