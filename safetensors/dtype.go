package safetensors

// DType is the type of a tensor's elements. Its constants are in the order of the Rust crate, by
// which files are sorted.
type DType uint8

// The zero DType is none of these and cannot be written.
const (
	Bool       DType = iota + 1 // one byte, 0 or 1
	F4                          // MXFP4, half a byte
	F6E2M3                      // MXFP6
	F6E3M2                      // MXFP6
	U8                          // unsigned byte
	I8                          // signed byte
	F8E5M2                      // torch.float8_e5m2
	F8E4M3                      // torch.float8_e4m3fn
	F8E8M0                      // torch.float8_e8m0fnu
	F8E4M3FNUZ                  // torch.float8_e4m3fnuz
	F8E5M2FNUZ                  // torch.float8_e5m2fnuz
	I16
	U16
	F16
	BF16
	I32
	U32
	F32
	C64 // torch.complex64: two 32-bit floats
	F64
	I64
	U64
)

var dtypes = [...]struct {
	name string
	bits int
}{
	Bool: {"BOOL", 8}, F4: {"F4", 4}, F6E2M3: {"F6_E2M3", 6}, F6E3M2: {"F6_E3M2", 6}, U8: {"U8", 8}, I8: {"I8", 8},
	F8E5M2: {"F8_E5M2", 8}, F8E4M3: {"F8_E4M3", 8}, F8E8M0: {"F8_E8M0", 8}, F8E4M3FNUZ: {"F8_E4M3FNUZ", 8},
	F8E5M2FNUZ: {"F8_E5M2FNUZ", 8},
	I16:        {"I16", 16}, U16: {"U16", 16}, F16: {"F16", 16}, BF16: {"BF16", 16}, I32: {"I32", 32}, U32: {"U32", 32},
	F32: {"F32", 32},
	C64: {"C64", 64}, F64: {"F64", 64}, I64: {"I64", 64}, U64: {"U64", 64},
}

// ParseDType returns the type with the given name in files, such as "BF16".
func ParseDType(name string) (DType, bool) {
	for d := Bool; d.Valid(); d++ {
		if dtypes[d].name == name {
			return d, true
		}
	}
	return 0, false
}

// Valid reports whether d is one of the constants.
func (d DType) Valid() bool { return d >= Bool && int(d) < len(dtypes) }

// String returns the name that files use, such as "BF16".
func (d DType) String() string {
	if !d.Valid() {
		return "invalid"
	}
	return dtypes[d].name
}

// Bits returns the width of one element. It is less than eight for F4, F6E2M3 and F6E3M2, and zero
// if d is not valid.
func (d DType) Bits() int {
	if !d.Valid() {
		return 0
	}
	return dtypes[d].bits
}
