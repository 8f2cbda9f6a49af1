package data

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"
)

// ErrNoFingerprint is the cause of [Fingerprint]'s error for a data set that cannot be recognized.
var ErrNoFingerprint = errors.New("the data set has no fingerprint")

// Fingerprint returns hashes of up to n samples of d by their indices: the first, the last, and
// others evenly spaced between them. The hashes are the same in another process, so they can
// distinguish this data set from one with the same length but other contents. They cover all values
// that the result of At, or of AtEpoch for epoch 0 of an [EpochDataset], holds or points to.
//
// Each sample is loaded twice, since a data set that draws random numbers by itself cannot be
// recognized; such a data set, and a sample that holds a function, a channel or an address, gives
// [ErrNoFingerprint]. Samples that cannot be loaded are left out, and so are those not yet loaded
// when limit has passed.
func Fingerprint[S any](ctx context.Context, d Dataset[S], n int, limit time.Duration) (map[int]string, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var mu sync.Mutex // guards hashes, which are read early if the limit passes
	hashes := map[int]string{}
	done := make(chan error, 1)
	go func() { // a sample that never returns must not block the caller
		done <- fingerprint(limited, d, n, func(i int, hash string) {
			mu.Lock()
			defer mu.Unlock()
			hashes[i] = hash
		})
	}()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
	case <-limited.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case limited.Err() != nil && len(hashes) == 0:
		return nil, fmt.Errorf("%w: a sample takes longer than %v", ErrNoFingerprint, limit)
	}
	return maps.Clone(hashes), nil
}

// fingerprint calls found with the hash of each sample.
func fingerprint[S any](ctx context.Context, d Dataset[S], n int, found func(i int, hash string)) error {
	for _, i := range spread(d.Len(), n) {
		first, err := hashOf(ctx, d, i)
		if err == nil {
			var second string
			if second, err = hashOf(ctx, d, i); err == nil && first != second {
				return fmt.Errorf("%w: sample %d differs from one draw to the next", ErrNoFingerprint, i)
			}
		}
		switch {
		case errors.Is(err, ErrNoFingerprint):
			return fmt.Errorf("sample %d: %w", i, err)
		case err != nil && ctx.Err() != nil:
			return nil
		case err == nil:
			found(i, first)
		}
	}
	return nil
}

// spread returns up to n evenly spaced numbers from 0 to length-1, including both ends.
func spread(length, n int) (indices []int) {
	n = min(n, length)
	for k := range n {
		indices = append(indices, k*(length-1)/max(1, n-1))
	}
	return slices.Compact(indices)
}

// hashOf returns the hash of sample i.
func hashOf[S any](ctx context.Context, d Dataset[S], i int) (string, error) {
	return guard(func() (string, error) {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		sample, err := at(ctx, d, 0, i)
		if err != nil {
			return "", err
		}
		h := sha256.New()
		if err := hashValue(h, reflect.ValueOf(&sample).Elem(), 0); err != nil {
			return "", err
		}
		return fmt.Sprintf("%x", h.Sum(nil)[:8]), nil
	})
}

// maxDepth limits the nesting of a sample, since one that points to itself would never end.
const maxDepth = 100

// hashValue adds the type of v and everything it holds to h.
func hashValue(h hash.Hash, v reflect.Value, depth int) error {
	if !v.IsValid() {
		hashUint64(h, 0)
		return nil
	}
	if depth > maxDepth {
		return fmt.Errorf("%w: it is nested more than %d times", ErrNoFingerprint, maxDepth)
	}
	io.WriteString(h, v.Type().String()) //nolint:errcheck // a hash does not fail
	if v.CanInterface() && (v.Kind() != reflect.Pointer || !v.IsNil()) {
		if m, ok := v.Interface().(encoding.BinaryMarshaler); ok {
			b, err := m.MarshalBinary()
			if err != nil {
				return fmt.Errorf("%w: %w", ErrNoFingerprint, err)
			}
			hashBytes(h, b)
			return nil
		}
	}
	switch v.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64,
		reflect.Complex64, reflect.Complex128:
		hashNumber(h, v)
		return nil
	case reflect.String:
		hashBytes(h, []byte(v.String()))
		return nil
	case reflect.Slice, reflect.Array:
		return hashList(h, v, depth)
	case reflect.Map:
		return hashMap(h, v, depth)
	case reflect.Struct:
		for i := range v.NumField() {
			if err := hashValue(h, v.Field(i), depth+1); err != nil {
				return err
			}
		}
		return nil
	case reflect.Pointer, reflect.Interface:
		return hashValue(h, v.Elem(), depth+1)
	}
	if v.IsZero() {
		return nil
	}
	return fmt.Errorf("%w: it holds a %s, which means nothing in another process", ErrNoFingerprint, v.Type())
}

func hashNumber(h hash.Hash, v reflect.Value) {
	switch {
	case v.Kind() == reflect.Bool:
		hashUint64(h, map[bool]uint64{true: 1}[v.Bool()])
	case v.CanInt():
		hashUint64(h, uint64(v.Int())) //nolint:gosec // the bits count
	case v.CanUint():
		hashUint64(h, v.Uint())
	case v.CanFloat():
		hashUint64(h, math.Float64bits(v.Float()))
	default:
		hashUint64(h, math.Float64bits(real(v.Complex())))
		hashUint64(h, math.Float64bits(imag(v.Complex())))
	}
}

func hashList(h hash.Hash, v reflect.Value, depth int) error {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		hashBytes(h, v.Bytes())
		return nil
	}
	hashUint64(h, uint64(v.Len())) //nolint:gosec // a length is not negative
	simple := v.Type().Elem().Kind() <= reflect.Complex128 && v.Type().Elem().Kind() != reflect.Uintptr
	for i := range v.Len() {
		if simple {
			hashNumber(h, v.Index(i))
		} else if err := hashValue(h, v.Index(i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// hashMap adds the entries in the order of their hashes, since the order of a map is random.
func hashMap(h hash.Hash, v reflect.Value, depth int) error {
	var entries []string
	for k, e := range v.Seq2() {
		entry := sha256.New()
		if err := errors.Join(hashValue(entry, k, depth+1), hashValue(entry, e, depth+1)); err != nil {
			return err
		}
		entries = append(entries, string(entry.Sum(nil)))
	}
	slices.Sort(entries)
	hashUint64(h, uint64(len(entries)))
	for _, e := range entries {
		io.WriteString(h, e) //nolint:errcheck // a hash does not fail
	}
	return nil
}

func hashUint64(h hash.Hash, v uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	h.Write(b[:]) //nolint:errcheck // a hash does not fail
}

func hashBytes(h hash.Hash, b []byte) {
	hashUint64(h, uint64(len(b)))
	h.Write(b) //nolint:errcheck // a hash does not fail
}
