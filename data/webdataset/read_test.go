package webdataset

import (
	"bytes"
	"io"
	"iter"
	"syscall"
	"testing"

	"github.com/gotrainer/gotrainer/data"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// badSector is a disk on which one byte cannot be read.
type badSector struct {
	io.ReaderAt
	at int64
}

func (d badSector) ReadAt(p []byte, offset int64) (int, error) {
	if offset <= d.at && d.at < offset+int64(len(p)) {
		return 0, syscall.EIO
	}
	return d.ReaderAt.ReadAt(p, offset)
}

func TestASampleThatTheDiskDoesNotGiveIsOneOfTheStream(t *testing.T) {
	s := &shard{path: "a.tar", samples: []sample{{"0", 0}, {"1", 1}, {"2", 2}},
		files: []member{{"txt", 0, 1}, {"txt", 1, 1}, {"txt", 2, 1}}}
	for bad := range int64(3) {
		stream := data.StreamFunc[Sample](func(_, skip int) iter.Seq2[Sample, error] {
			return func(yield func(Sample, error) bool) {
				s.from(badSector{bytes.NewReader([]byte("abc")), bad}, skip, yield)
			}
		})
		l, err := data.NewStreamLoader(stream, func(batch []Sample) (int, error) { return len(batch), nil },
			data.LoaderOptions{BatchSize: 3, BadSample: func(i int, err error) error {
				assert.EqualValues(t, bad, i)
				assert.ErrorIs(t, err, syscall.EIO)
				return nil
			}})
		require.NoError(t, err)
		var sizes []int
		for b, err := range l.Pass(t.Context(), 0, 0) {
			require.NoError(t, err)
			sizes = append(sizes, b.Batch)
		}
		assert.Equal(t, []int{2}, sizes)
	}
	var errs []error
	s.from(bytes.NewReader([]byte("a")), 0, func(_ Sample, err error) bool {
		errs = append(errs, err)
		return true
	})
	require.Len(t, errs, 2, "a shard that has become shorter ends there")
	assert.ErrorIs(t, errs[1], ErrChanged)
}
