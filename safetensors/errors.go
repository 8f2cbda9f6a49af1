package safetensors

import (
	"errors"
	"fmt"
)

// The kinds of errors in a file, as in the error table of the Rust crate (its name in brackets). A
// [*FormatError] wraps one of them.
var (
	// HeaderTooSmall
	ErrHeaderTooSmall = errors.New("the file is too small for the length of a header")
	// HeaderTooLarge
	ErrHeaderTooLarge = fmt.Errorf("the header is larger than %d bytes", MaxHeader)
	// InvalidHeaderLength
	ErrHeaderLength = errors.New("the header is longer than the file")
	// InvalidHeader
	ErrHeaderUTF8 = errors.New("the header is not valid UTF-8")
	// InvalidHeaderDeserialization
	ErrHeaderJSON = errors.New("the header is not the JSON object that it should be")
	// accepted by the crate
	ErrDuplicateKey = errors.New("a key occurs twice in the header")
	// InvalidHeaderDeserialization
	ErrUnknownDType = errors.New("unknown dtype")
	// InvalidOffset
	ErrOffsets = errors.New("the tensors' bytes overlap or leave a hole")
	// accepted by the crate
	ErrTooMany = errors.New("the header describes more than a model has")
	// TensorInvalidInfo
	ErrTensorInfo = errors.New("dtype and shape do not fit the number of bytes")
	// MetadataIncompleteBuffer
	ErrIncomplete = errors.New("the tensors do not cover the file to its end")
	// ValidationOverflow
	ErrOverflow = errors.New("the shape's number of bytes does not fit into 63 bits")
	// MisalignedSlice
	ErrMisaligned = errors.New("elements of less than a byte do not fill whole bytes")
	// TensorNotFound
	ErrNotFound = errors.New("no tensor of that name")
	// only when writing
	errReservedName = errors.New("the name __metadata__ is reserved")
	// only when writing
	errNoData = errors.New("Entry.Data is nil; it writes the tensor's bytes, see Bytes")
	// only when writing
	errUnequalByteSize = errors.New("Entry.Data wrote another number of bytes than dtype and shape say")
)

// FormatError says what is wrong with a file, and where.
type FormatError struct {
	Tensor string // the tensor concerned; empty if it is the whole file
	Offset int64  // where in the file, if Detail is about a certain byte; otherwise negative
	Detail string // what was found and what was expected
	Err    error  // one of the errors of this package
}

func (e *FormatError) Error() string {
	text := "safetensors: " + e.Err.Error()
	if e.Tensor != "" {
		text = fmt.Sprintf("safetensors: tensor %q: %v", e.Tensor, e.Err)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Offset >= 0 {
		text += fmt.Sprintf(" (at byte %d of the file)", e.Offset)
	}
	return text
}

func (e *FormatError) Unwrap() error { return e.Err }

// malformed returns an error about the whole file.
func malformed(err error, format string, args ...any) error {
	return &FormatError{Offset: -1, Err: err, Detail: fmt.Sprintf(format, args...)}
}

// malformedTensor returns an error about one tensor.
func malformedTensor(name string, err error, format string, args ...any) error {
	return &FormatError{Tensor: name, Offset: -1, Err: err, Detail: fmt.Sprintf(format, args...)}
}
