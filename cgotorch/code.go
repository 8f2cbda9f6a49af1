package cgotorch

// #include "load.h"
// #cgo noescape ct_free_error
// #cgo nocallback ct_free_error
import "C"

import "unsafe"

// Code is the result of every call: the slot of the thread's scope (0: none) on success, a negative
// number on failure. A failed code owns an error record until [Code.Take] is called, once.
type Code int64

// The kinds of failure.
const (
	ErrInvalid      = int(C.CT_ERR_INVALID)
	ErrOutOfMemory  = int(C.CT_ERR_OUT_OF_MEMORY)
	ErrIndex        = int(C.CT_ERR_INDEX)
	ErrType         = int(C.CT_ERR_TYPE)
	ErrValue        = int(C.CT_ERR_VALUE)
	ErrNotSupported = int(C.CT_ERR_NOT_SUPPORTED)
	ErrInternal     = int(C.CT_ERR_INTERNAL)
	ErrDevice       = int(C.CT_ERR_DEVICE)
)

func (c Code) record() *C.ct_error {
	address := uintptr(-int64(c))
	// The address is memory of C, not of Go.
	return *(**C.ct_error)(unsafe.Pointer(&address))
}

// Kind returns the kind of failure of a failed code, or 0 for success.
func (c Code) Kind() int {
	if c >= 0 {
		return 0
	}
	return int(c.record().code)
}

// Take returns a failed code's kind and libtorch's message, and frees its record.
func (c Code) Take() (kind int, message string) {
	r := c.record()
	kind, message = int(r.code), C.GoString(C.ct_text(r))
	C.ct_free_error(r)
	return kind, message
}
