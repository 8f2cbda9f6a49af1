package amp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// Precision is the dtype in which a forward pass runs the operators that work in low precision. The
// zero value is [FP32].
type Precision int8

// The precisions.
const (
	FP32 Precision = iota // float32 throughout, no autocast
	BF16                  // bfloat16
	FP16                  // float16, which needs a [GradScaler]
)

// String returns "fp32", "bf16" or "fp16".
func (p Precision) String() string {
	switch p {
	case FP32:
		return "fp32"
	case BF16:
		return "bf16"
	case FP16:
		return "fp16"
	}
	return fmt.Sprintf("precision(%d)", int8(p))
}

// ParsePrecision parses the names returned by String, those of dtypes (float32, bfloat16, float16),
// and Hugging Face's "no" for FP32. Case does not matter.
func ParsePrecision(s string) (Precision, error) {
	switch strings.ToLower(s) {
	case "fp32", "float32", "no":
		return FP32, nil
	case "bf16", "bfloat16":
		return BF16, nil
	case "fp16", "float16":
		return FP16, nil
	}
	return FP32, fmt.Errorf("amp: precision %q is not known: want fp32, bf16 or fp16", s)
}

// FromFlags returns the precision for Hugging Face's arguments fp16 and bf16, of which at most one
// may be set.
func FromFlags(fp16, bf16 bool) (Precision, error) {
	switch {
	case fp16 && bf16:
		return FP32, errors.New("amp: fp16 and bf16 are both set: at most one precision can be chosen")
	case fp16:
		return FP16, nil
	case bf16:
		return BF16, nil
	}
	return FP32, nil
}

// MarshalText returns the text of String, for configuration files. It refuses values that are not a
// precision.
func (p Precision) MarshalText() ([]byte, error) {
	if p < FP32 || p > FP16 {
		return nil, fmt.Errorf("amp: %s is not a precision", p)
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads what [ParsePrecision] reads.
func (p *Precision) UnmarshalText(text []byte) error {
	v, err := ParsePrecision(string(text))
	if err == nil {
		*p = v
	}
	return err
}

// DType returns the dtype that the precision computes in.
func (p Precision) DType() torch.DType {
	switch p {
	case FP32:
		return torch.Float32
	case BF16:
		return torch.BFloat16
	case FP16:
		return torch.Float16
	}
	panic(&torch.Error{Op: "amp.Precision.DType", Code: torch.ErrValue,
		Msg: fmt.Sprintf("%s is not a precision; want FP32, BF16 or FP16", p)})
}
