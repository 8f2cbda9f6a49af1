package nn

import (
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/nn/internal/dims"
	"github.com/gotrainer/gotrainer/torch"
)

// Padding adds elements on both sides of the last dimensions. It is the common part of the padding
// layers.
type Padding struct {
	// left, right, top, bottom, front, back: pairs starting with the last dimension; negative
	// numbers crop
	Pad   Dims
	Mode  functional.PadMode // how the new elements are filled
	Value float64            // for functional.PadConstant

	dims int // the number of dimensions after the channels
}

// newPadding returns a Padding with one number for each side of n dimensions.
func newPadding(op string, n int, pad Dims, mode functional.PadMode, value float64) Padding {
	return Padding{dims.Required("nn."+op, "pad", pad, 2*n), mode, value, n}
}

// Forward takes [N, C, ...] or [C, ...].
func (p *Padding) Forward(x torch.Tensor) torch.Tensor {
	if d := x.Dim(); p.Mode != functional.PadConstant && d != p.dims+1 && d != p.dims+2 {
		panic(torch.Errorf("nn.Padding", torch.ErrInvalid, "want %d dimensions, or %d with a batch, found %v", p.dims+1,
			p.dims+2, x.Shape()))
	}
	return functional.Pad(x, p.Pad, p.Mode, p.Value)
}

// ZeroPad1d is [Padding] for sequences that fills with zeros: torch.nn.ZeroPad1d.
type ZeroPad1d struct{ Padding }

// NewZeroPad1d makes a ZeroPad1d; a single number applies to all sides.
func NewZeroPad1d(pad Dims) *ZeroPad1d {
	return &ZeroPad1d{newPadding("NewZeroPad1d", 1, pad, functional.PadConstant, 0)}
}

// ZeroPad2d is [Padding] for images that fills with zeros: torch.nn.ZeroPad2d.
type ZeroPad2d struct{ Padding }

// NewZeroPad2d makes a ZeroPad2d; a single number applies to all sides.
func NewZeroPad2d(pad Dims) *ZeroPad2d {
	return &ZeroPad2d{newPadding("NewZeroPad2d", 2, pad, functional.PadConstant, 0)}
}

// ZeroPad3d is [Padding] for volumes that fills with zeros: torch.nn.ZeroPad3d.
type ZeroPad3d struct{ Padding }

// NewZeroPad3d makes a ZeroPad3d; a single number applies to all sides.
func NewZeroPad3d(pad Dims) *ZeroPad3d {
	return &ZeroPad3d{newPadding("NewZeroPad3d", 3, pad, functional.PadConstant, 0)}
}

// ConstantPad1d is [Padding] for sequences that fills with a value: torch.nn.ConstantPad1d.
type ConstantPad1d struct{ Padding }

// NewConstantPad1d makes a ConstantPad1d; a single number applies to all sides.
func NewConstantPad1d(pad Dims, value float64) *ConstantPad1d {
	return &ConstantPad1d{newPadding("NewConstantPad1d", 1, pad, functional.PadConstant, value)}
}

// ConstantPad2d is [Padding] for images that fills with a value: torch.nn.ConstantPad2d.
type ConstantPad2d struct{ Padding }

// NewConstantPad2d makes a ConstantPad2d; a single number applies to all sides.
func NewConstantPad2d(pad Dims, value float64) *ConstantPad2d {
	return &ConstantPad2d{newPadding("NewConstantPad2d", 2, pad, functional.PadConstant, value)}
}

// ConstantPad3d is [Padding] for volumes that fills with a value: torch.nn.ConstantPad3d.
type ConstantPad3d struct{ Padding }

// NewConstantPad3d makes a ConstantPad3d; a single number applies to all sides.
func NewConstantPad3d(pad Dims, value float64) *ConstantPad3d {
	return &ConstantPad3d{newPadding("NewConstantPad3d", 3, pad, functional.PadConstant, value)}
}

// ReflectionPad1d is [Padding] for sequences that mirrors the neighbours of the border:
// torch.nn.ReflectionPad1d.
type ReflectionPad1d struct{ Padding }

// NewReflectionPad1d makes a ReflectionPad1d; a single number applies to all sides.
func NewReflectionPad1d(pad Dims) *ReflectionPad1d {
	return &ReflectionPad1d{newPadding("NewReflectionPad1d", 1, pad, functional.PadReflect, 0)}
}

// ReflectionPad2d is [Padding] for images that mirrors the neighbours of the border:
// torch.nn.ReflectionPad2d.
type ReflectionPad2d struct{ Padding }

// NewReflectionPad2d makes a ReflectionPad2d; a single number applies to all sides.
func NewReflectionPad2d(pad Dims) *ReflectionPad2d {
	return &ReflectionPad2d{newPadding("NewReflectionPad2d", 2, pad, functional.PadReflect, 0)}
}

// ReflectionPad3d is [Padding] for volumes that mirrors the neighbours of the border:
// torch.nn.ReflectionPad3d.
type ReflectionPad3d struct{ Padding }

// NewReflectionPad3d makes a ReflectionPad3d; a single number applies to all sides.
func NewReflectionPad3d(pad Dims) *ReflectionPad3d {
	return &ReflectionPad3d{newPadding("NewReflectionPad3d", 3, pad, functional.PadReflect, 0)}
}

// ReplicationPad1d is [Padding] for sequences that repeats the border: torch.nn.ReplicationPad1d.
type ReplicationPad1d struct{ Padding }

// NewReplicationPad1d makes a ReplicationPad1d; a single number applies to all sides.
func NewReplicationPad1d(pad Dims) *ReplicationPad1d {
	return &ReplicationPad1d{newPadding("NewReplicationPad1d", 1, pad, functional.PadReplicate, 0)}
}

// ReplicationPad2d is [Padding] for images that repeats the border: torch.nn.ReplicationPad2d.
type ReplicationPad2d struct{ Padding }

// NewReplicationPad2d makes a ReplicationPad2d; a single number applies to all sides.
func NewReplicationPad2d(pad Dims) *ReplicationPad2d {
	return &ReplicationPad2d{newPadding("NewReplicationPad2d", 2, pad, functional.PadReplicate, 0)}
}

// ReplicationPad3d is [Padding] for volumes that repeats the border: torch.nn.ReplicationPad3d.
type ReplicationPad3d struct{ Padding }

// NewReplicationPad3d makes a ReplicationPad3d; a single number applies to all sides.
func NewReplicationPad3d(pad Dims) *ReplicationPad3d {
	return &ReplicationPad3d{newPadding("NewReplicationPad3d", 3, pad, functional.PadReplicate, 0)}
}

// CircularPad1d is [Padding] for sequences that repeats the other side: torch.nn.CircularPad1d.
type CircularPad1d struct{ Padding }

// NewCircularPad1d makes a CircularPad1d; a single number applies to all sides.
func NewCircularPad1d(pad Dims) *CircularPad1d {
	return &CircularPad1d{newPadding("NewCircularPad1d", 1, pad, functional.PadCircular, 0)}
}

// CircularPad2d is [Padding] for images that repeats the other side: torch.nn.CircularPad2d.
type CircularPad2d struct{ Padding }

// NewCircularPad2d makes a CircularPad2d; a single number applies to all sides.
func NewCircularPad2d(pad Dims) *CircularPad2d {
	return &CircularPad2d{newPadding("NewCircularPad2d", 2, pad, functional.PadCircular, 0)}
}

// CircularPad3d is [Padding] for volumes that repeats the other side: torch.nn.CircularPad3d.
type CircularPad3d struct{ Padding }

// NewCircularPad3d makes a CircularPad3d; a single number applies to all sides.
func NewCircularPad3d(pad Dims) *CircularPad3d {
	return &CircularPad3d{newPadding("NewCircularPad3d", 3, pad, functional.PadCircular, 0)}
}
