package data_test

import (
	"context"
	"errors"
	"image"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
)

// page is a sample with every kind of field.
type page struct {
	Picture *image.RGBA
	Text    string
	words   map[string]int
	Boxes   [][4]float32
	When    time.Time
	Any     any
	next    *page
}

func somePage(i int) page {
	picture := image.NewRGBA(image.Rect(0, 0, 4, 4))
	picture.Pix[3] = byte(i)
	return page{Picture: picture, Text: "ده", words: map[string]int{"a": i, "b": 2}, Boxes: [][4]float32{{1, 2}},
		When: time.Unix(int64(i), 0).UTC(), Any: int32(3), next: &page{Text: "end"}}
}

func pages(n int, change func(i int, p *page)) data.Dataset[page] {
	set := make(data.Slice[page], n)
	for i := range set {
		set[i] = somePage(i)
		if change != nil {
			change(i, &set[i])
		}
	}
	return set
}

func TestAFingerprintIsThatOfTheContent(t *testing.T) {
	take := func(change func(i int, p *page)) map[int]string {
		hashes, err := data.Fingerprint(context.Background(), pages(50, change), 8, time.Minute)
		require.NoError(t, err)
		return hashes
	}
	want := take(nil)
	assert.Equal(t, want, take(nil), "of the same content elsewhere in memory")
	assert.Equal(t, map[int]string{0: want[0], 7: want[7], 14: want[14], 21: want[21], 28: want[28], 35: want[35],
		42: want[42], 49: want[49]}, want, "the first, the last and some between")
	// a constant, because another process must compute the same value
	assert.Equal(t, "1f89f8bafa4fe426", want[0])
	for claim, change := range map[string]func(p *page){
		"a pixel":             func(p *page) { p.Picture.Pix[9] ^= 1 },
		"a letter":            func(p *page) { p.Text = "دو" },
		"a value of a map":    func(p *page) { p.words["b"] = 3 },
		"a key of a map":      func(p *page) { p.words["c"] = 2 },
		"a number":            func(p *page) { p.Boxes[0][3] = 1e-30 },
		"a time":              func(p *page) { p.When = p.When.Add(1) },
		"a type":              func(p *page) { p.Any = int64(3) },
		"what is pointed to":  func(p *page) { p.next.Text = "End" },
		"a pointer that ends": func(p *page) { p.next = nil },
	} {
		got := take(func(i int, p *page) {
			if i == 14 {
				change(p)
			}
		})
		assert.NotEqual(t, want[14], got[14], claim)
		got[14] = want[14]
		assert.Equal(t, want, got, claim)
	}
}

func TestAFingerprintOfFewSamples(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 2: 2, 5: 5, 9: 8} {
		hashes, err := data.Fingerprint(context.Background(), pages(n, nil), 8, time.Minute)
		require.NoError(t, err)
		assert.Len(t, hashes, want, "%d samples", n)
		if n > 0 {
			assert.Contains(t, hashes, n-1)
		}
	}
}

// source is a data set defined by a function.
type source func(i int) (any, error)

func (source) Len() int                { return 20 }
func (s source) At(i int) (any, error) { return s(i) }

func TestWhatHasNoFingerprint(t *testing.T) {
	loop := &page{}
	loop.next = loop
	for claim, at := range map[string]source{
		"random samples":       func(int) (any, error) { return rand.Uint64(), nil },
		"a function":           func(int) (any, error) { return func() {}, nil },
		"an address":           func(int) (any, error) { return unsafe.Pointer(loop), nil }, //nolint:gosec // a test
		"a number of an owner": func(int) (any, error) { return struct{ handle uintptr }{7}, nil },
		"a circle":             func(int) (any, error) { return loop, nil },
	} {
		hashes, err := data.Fingerprint[any](context.Background(), at, 8, time.Minute)
		assert.ErrorIs(t, err, data.ErrNoFingerprint, claim)
		assert.Empty(t, hashes, claim)
	}
}

func TestAFingerprintLeavesOutWhatCannotBeLoaded(t *testing.T) {
	at := func(i int) (any, error) {
		switch i {
		case 0:
			return nil, errors.New("damaged")
		case 19:
			panic("worse")
		}
		return i, nil
	}
	hashes, err := data.Fingerprint[any](context.Background(), source(at), 8, time.Minute)
	require.NoError(t, err)
	assert.Len(t, hashes, 6)
}

func TestAFingerprintDoesNotWaitForEver(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	hang := source(func(int) (any, error) { <-release; return 1, nil })
	_, err := data.Fingerprint[any](context.Background(), hang, 8, time.Millisecond)
	assert.ErrorIs(t, err, data.ErrNoFingerprint)
}

// Augmentation that depends only on epoch and index gives the same samples each time.
func TestAFingerprintOfAugmentedSamples(t *testing.T) {
	augmented := func() data.Dataset[float64] {
		return data.Augment(pages(20, nil), 3, func(r *rand.Rand, p page) (float64, error) { return r.Float64(), nil })
	}
	a, err := data.Fingerprint(context.Background(), augmented(), 8, time.Minute)
	require.NoError(t, err)
	b, err := data.Fingerprint(context.Background(), augmented(), 8, time.Minute)
	require.NoError(t, err)
	assert.Equal(t, a, b)
}

func TestAFingerprintKeepsWhatItHasWhenTimeIsOver(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	hang := source(func(i int) (any, error) {
		if i > 0 {
			<-release
		}
		return i, nil
	})
	hashes, err := data.Fingerprint[any](context.Background(), hang, 8, 500*time.Millisecond)
	require.NoError(t, err)
	assert.Len(t, hashes, 1)
	assert.Contains(t, hashes, 0)

	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	_, err = data.Fingerprint[any](ctx, hang, 8, time.Minute)
	assert.ErrorIs(t, err, stop)
}
