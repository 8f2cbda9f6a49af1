package spec

import (
	"errors"
	"io"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTryReturnsWhatFails(t *testing.T) {
	var missing *Unsupported
	assert.NoError(t, Try(func() { assert.Equal(t, 3, Must(strconv.Atoi("3"))) }))
	assert.ErrorIs(t, Try(func() { Check(io.EOF) }), io.EOF)
	assert.ErrorIs(t, Try(func() { Must2(1, 2, io.EOF) }), io.EOF)
	assert.ErrorIs(t, Try(func() { Failf("beyond: %w", io.EOF) }), io.EOF)
	assert.ErrorAs(t, Try(func() { Refusef("the trainer %q", "x") }), &missing)
	inner := errors.New("inner")
	assert.NoError(t, Try(func() { assert.Equal(t, inner, Try(func() { Check(inner) })) }), "the innermost takes it")
	assert.PanicsWithValue(t, "other", func() { _ = Try(func() { panic("other") }) }, "no other panic is taken")
}
