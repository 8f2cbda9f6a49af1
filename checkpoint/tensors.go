package checkpoint

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/gotrainer/gotrainer/safetensors"
)

// tensorsOf returns the tensors of a safetensors file, recognised by its name. It returns nil for
// other files, and for a file that it cannot parse: the checksum of the whole file covers that one,
// too.
func tensorsOf(f *os.File, size int64) []safetensors.Tensor {
	if !strings.HasSuffix(f.Name(), ".safetensors") {
		return nil
	}
	r, err := safetensors.NewReader(f, size)
	if err != nil {
		return nil
	}
	return r.Tensors()
}

// sums reads a file once and returns its checksum and those of its tensors.
func sums(f *os.File) (size int64, crc uint32, tensors map[string]string, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, nil, err
	}
	list := tensorsOf(f, info.Size())
	if len(list) == 0 {
		size, crc, err = checksum(f)
		return size, crc, nil, err
	}
	tensors = make(map[string]string, len(list))
	// checksum of the next n bytes, which are also added to that of the file
	part := func(n int64) (sum uint32, err error) {
		sum, err = checksumOf(io.LimitReader(f, n), n)
		crc, size = combine(crc, sum, n), size+n
		return sum, err
	}
	if _, err := part(list[0].Offset); err != nil { // the header
		return size, crc, nil, err
	}
	for _, t := range list { // in the order of the file, without gaps
		sum, err := part(t.Size)
		if err != nil {
			return size, crc, nil, err
		}
		tensors[t.Name] = fmt.Sprintf("%08x", sum)
	}
	return size, crc, tensors, nil
}

// checksumOf reads n bytes and returns their checksum.
func checksumOf(r io.Reader, n int64) (uint32, error) {
	buffer := buffers.Get().(*[1 << 20]byte)
	defer buffers.Put(buffer)
	h := crc32.New(castagnoli)
	got, err := io.CopyBuffer(h, onlyReader{r}, buffer[:])
	if err == nil && got != n {
		err = io.ErrUnexpectedEOF
	}
	return h.Sum32(), err
}

// damagedTensor names the first tensor of a file that does not match the manifest.
func damagedTensor(dir string, want file) error {
	f, err := os.Open(filepath.Join(dir, filepath.FromSlash(want.Name)))
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	list := tensorsOf(f, want.Size)
	if list == nil {
		return errors.New("its header is damaged")
	}
	for _, t := range list {
		if want.Tensors[t.Name] == "" {
			return errors.New("its header is damaged")
		}
		sum, err := checksumOf(io.NewSectionReader(f, t.Offset, t.Size), t.Size)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if got := fmt.Sprintf("%08x", sum); got != want.Tensors[t.Name] {
			return fmt.Errorf("tensor %q has CRC32C %s, its manifest says %s", t.Name, got, want.Tensors[t.Name])
		}
	}
	return errors.New("its header is damaged")
}

// combine returns the CRC32C of two consecutive pieces, given those of the pieces and the length of
// the second: a polynomial times x^(8n) plus another, modulo Castagnoli's polynomial.
func combine(first, second uint32, n int64) uint32 {
	power, square := uint32(1)<<31, uint32(1)<<23 // 1 and x^8, bits reversed
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			power = multiply(power, square)
		}
		square = multiply(square, square)
	}
	return multiply(power, first) ^ second
}

// multiply multiplies two polynomials modulo Castagnoli's polynomial, with bits reversed.
func multiply(a, b uint32) (product uint32) {
	for ; a != 0; a <<= 1 {
		if a&(1<<31) != 0 {
			product ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.Castagnoli
		} else {
			b >>= 1
		}
	}
	return product
}
