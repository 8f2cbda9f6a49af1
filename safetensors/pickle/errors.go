package pickle

import (
	"errors"
	"fmt"
)

// What can be wrong with a file. A [*FormatError] wraps one of them.
var (
	// a name that is not allowed
	ErrForbidden = errors.New("the file asks for something that no tensor needs")
	ErrUnknown   = errors.New("the pickle has an instruction that torch.save does not write") // an opcode
	// its parts do not fit together
	ErrMalformed = errors.New("the file is damaged")
	// more than any model needs
	ErrTooLarge  = errors.New("the file describes more than this reader takes")
	ErrScript    = errors.New("the file is a TorchScript archive")            // torch.jit.save
	ErrBigEndian = errors.New("the file was written on a big-endian machine") // byteorder
	// neither zip nor pickle
	ErrNotZip = errors.New("the file is not what torch.save writes")
	// complex128, quantized
	ErrDType    = errors.New("the tensor has a dtype that safetensors has not")
	ErrNotFound = errors.New("no tensor of that name") // Reader.Read
	// CRC-32 of the zip entry
	ErrChecksum = errors.New("the bytes of the tensor are not the bytes that were written (their sum)")
)

// FormatError says what is wrong with a file, and where.
type FormatError struct {
	Name   string // the forbidden name, the tensor, or the file in the zip
	Offset int64  // where in the pickle; negative if it is not about an instruction
	Detail string // what was found, what was expected, what to do
	Err    error  // one of the errors of this package
}

func (e *FormatError) Error() string {
	text := "pickle: "
	if e.Name != "" {
		text += e.Name + ": "
	}
	text += e.Err.Error()
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	if e.Offset >= 0 {
		text += fmt.Sprintf(" (at byte %d of the pickle)", e.Offset)
	}
	return text
}

func (e *FormatError) Unwrap() error { return e.Err }

func fault(err error, name, format string, args ...any) error {
	return &FormatError{Name: name, Offset: -1, Err: err, Detail: fmt.Sprintf(format, args...)}
}
