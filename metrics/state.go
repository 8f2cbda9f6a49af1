package metrics

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
)

// ErrState is wrapped by the errors of [Merger].Merge: the bytes are damaged, or come from a
// different metric or different settings.
var ErrState = errors.New("metrics: not the state of this metric")

// Merger is implemented by every metric of this package. Its counts can be added up over processes
// that each saw a part of the set, so that the result is that of the whole set:
//
//	state, err := cer.State()                                     // in each process
//	for _, state := range gathered { err = total.Merge(state) }   // in one of them
type Merger interface {
	// State returns what was counted since the last Reset.
	State() ([]byte, error)
	// Merge adds what another metric of the same kind and with the same settings counted. On an
	// error nothing is added.
	Merge(state []byte) error
}

// pack encodes counts. kind names the metric and those settings that affect the counts.
func pack(kind string, counts any) ([]byte, error) {
	var b bytes.Buffer
	enc := gob.NewEncoder(&b)
	if err := errors.Join(enc.Encode(kind), enc.Encode(counts)); err != nil {
		return nil, fmt.Errorf("metrics: state of %s: %w", kind, err)
	}
	return b.Bytes(), nil
}

// unpack decodes what pack has encoded.
func unpack(state []byte, kind string, counts any) error {
	dec := gob.NewDecoder(bytes.NewReader(state))
	var found string
	if err := dec.Decode(&found); err != nil {
		return fmt.Errorf("%w: want %s, found bytes that are no state: %w", ErrState, kind, err)
	}
	if found != kind {
		return fmt.Errorf("%w: want %s, found %q; metrics that are merged must have the same settings", ErrState, kind,
			found)
	}
	if err := dec.Decode(counts); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrState, kind, err)
	}
	return nil
}

// impossible returns the error for counts that no set can give.
func impossible(kind, what string) error {
	return fmt.Errorf("%w: %s: %s", ErrState, kind, what)
}

// addCounts adds the counts in from to those in to, which it makes if it is nil.
func addCounts[K comparable](to, from map[K]int64) map[K]int64 {
	if to == nil {
		to = make(map[K]int64, len(from))
	}
	for k, n := range from {
		to[k] += n
	}
	return to
}
