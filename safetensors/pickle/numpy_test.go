package pickle_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

func TestArraysOfNumPyAreRead(t *testing.T) {
	table := []byte{}
	for i := range 6 {
		table = binary.LittleEndian.AppendUint64(table, math.Float64bits(float64(i)))
	}
	for _, name := range []string{"arrays.pt", "arrays4.pt"} {
		f, err := pickle.Open("testdata/" + name)
		require.NoError(t, err, name)
		d, ok := f.Value().(*pickle.Dict)
		require.True(t, ok, "%s is a %T", name, f.Value())
		for key, want := range map[string]*pickle.Array{
			"words": {DType: "u4", Shape: []int64{3}, Data: []byte{0xfd, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff, 0xff,
				0xff, 0xff, 0xff}},
			"table": {DType: "f8", Shape: []int64{2, 3}, Data: table},
			"empty": {DType: "i8", Shape: []int64{0, 2}, Data: []byte{}},
		} {
			v, ok := d.Get(key)
			require.True(t, ok, key)
			assert.Equal(t, want, v, "%s of %s", key, name)
		}
		require.NoError(t, f.Close())
	}
}

func TestOtherArraysAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"bigendian.pt": "the byte order < or |",
		"fortran.pt":   "want a shape, a dtype and bytes in C order",
	} {
		_, err := pickle.Open("testdata/" + name)
		assert.ErrorContains(t, err, want, name)
		var f *pickle.FormatError
		assert.ErrorAs(t, err, &f, name)
	}
}

// NumPy's names are allowed only to build arrays.
func TestNamesOfNumPyBuildArraysOnly(t *testing.T) {
	for code, want := range map[string]string{
		"\x80\x02cnumpy\nfromfile\n.": "numpy.fromfile",
		"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00utf-8\x86R.": "_codecs.encode gets 2 " +
			"values",
		"\x80\x02c_codecs\nencode\n(X\x03\x00\x00\x00\xe2\x82\xacX\x06\x00\x00\x00latin1tR.": "the character U+20AC",
		"\x80\x02cnumpy\ndtype\n(X\x01\x00\x00\x00O\x89\x88tR.":                              `the dtype "O"`,
		"\x80\x02cnumpy._core.multiarray\n_reconstruct\n(cnumpy\ndtype\nK\x00\x85K\x00tR.":   "not those of an array",
	} {
		content := file(t, zip.Store, code)
		_, err := pickle.NewReader(bytes.NewReader(content), int64(len(content)))
		assert.ErrorContains(t, err, want, "%q", code)
	}
}
