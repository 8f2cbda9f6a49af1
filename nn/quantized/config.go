package quantized

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// Type names the 16 numbers that stand for all weights: bnb_4bit_quant_type.
type Type string

// The supported types.
const (
	FP4 Type = "fp4" // a sign, two bits of exponent and one of fraction; the default of bitsandbytes
	NF4 Type = "nf4" // the quantiles of a normal distribution, which suit weights better
)

// Config is BitsAndBytesConfig with load_in_4bit. The zero value has the same defaults.
type Config struct {
	Type Type // empty means FP4
	// DoubleQuant also quantizes the largest absolute value of each block, to eight bits, which
	// saves 0.4 bits per weight (bnb_4bit_use_double_quant).
	DoubleQuant bool
	// ComputeDType is the dtype in which products are computed: Float32, BFloat16 or Float16; zero
	// means Float32 (bnb_4bit_compute_dtype). The result has the dtype of the input.
	ComputeDType torch.DType
	// SkipModules are layers that are not quantized, in addition to those that never are. They are
	// given by their names or by what the names start or end with (llm_int8_skip_modules).
	SkipModules []string
}

var computed = []torch.DType{torch.Float32, torch.BFloat16, torch.Float16}

// resolved fills in the defaults and checks the configuration.
func (c Config) resolved() (Config, error) {
	c.Type = cmp.Or(c.Type, FP4)
	c.ComputeDType = cmp.Or(c.ComputeDType, torch.Float32)
	if codes[c.Type] == nil {
		return c, fmt.Errorf("quantized: Config.Type is %q; want %q or %q", c.Type, FP4, NF4)
	}
	if !slices.Contains(computed, c.ComputeDType) {
		return c, fmt.Errorf("quantized: Config.ComputeDType is %s; want one of %v", c.ComputeDType, computed)
	}
	return c, nil
}

// Skips reports whether SkipModules includes the layer of that name.
func (c Config) Skips(name string) bool {
	return slices.ContainsFunc(c.SkipModules, func(s string) bool {
		return strings.HasPrefix(name, s) || strings.HasSuffix(name, s)
	})
}

// file is the quantization_config of a config.json.
type file struct {
	Method       string    `json:"quant_method"`
	In4Bit       bool      `json:"load_in_4bit"`
	In8Bit       bool      `json:"load_in_8bit"`
	OwnIn4Bit    bool      `json:"_load_in_4bit"`
	OwnIn8Bit    bool      `json:"_load_in_8bit"`
	ComputeDType string    `json:"bnb_4bit_compute_dtype"`
	Storage      string    `json:"bnb_4bit_quant_storage"`
	Type         Type      `json:"bnb_4bit_quant_type"`
	DoubleQuant  bool      `json:"bnb_4bit_use_double_quant"`
	Offload      bool      `json:"llm_int8_enable_fp32_cpu_offload"`
	FP16Weight   bool      `json:"llm_int8_has_fp16_weight"`
	SkipModules  *[]string `json:"llm_int8_skip_modules"`
	Threshold    float64   `json:"llm_int8_threshold"`
}

// MarshalJSON encodes c as quantization_config, as transformers does.
func (c Config) MarshalJSON() ([]byte, error) {
	c, err := c.resolved()
	if err != nil {
		return nil, err
	}
	f := file{Method: "bitsandbytes", In4Bit: true, OwnIn4Bit: true, ComputeDType: c.ComputeDType.String(),
		Storage: "uint8", Type: c.Type, DoubleQuant: c.DoubleQuant, Threshold: 6}
	if c.SkipModules != nil {
		f.SkipModules = &c.SkipModules
	}
	return json.Marshal(f)
}

// UnmarshalJSON decodes the quantization_config of a config.json. It refuses anything but four
// bits of bitsandbytes.
func (c *Config) UnmarshalJSON(text []byte) error {
	f := file{Storage: "uint8", ComputeDType: "float32", Type: FP4}
	if err := json.Unmarshal(text, &f); err != nil {
		return err
	}
	switch {
	case f.Method != "bitsandbytes":
		return fmt.Errorf("quant_method is %q; only \"bitsandbytes\" with four bits is supported", f.Method)
	case !f.In4Bit && !f.OwnIn4Bit || f.In8Bit || f.OwnIn8Bit:
		return errors.New("load_in_4bit is not set; only the four bits of bitsandbytes are supported")
	case f.Storage != "uint8":
		return fmt.Errorf("bnb_4bit_quant_storage is %q; only \"uint8\" is supported", f.Storage)
	}
	d := slices.IndexFunc(computed, func(d torch.DType) bool { return d.String() == f.ComputeDType })
	if d < 0 {
		return fmt.Errorf("bnb_4bit_compute_dtype is %q; want one of %v", f.ComputeDType, computed)
	}
	*c = Config{Type: f.Type, DoubleQuant: f.DoubleQuant, ComputeDType: computed[d]}
	if f.SkipModules != nil {
		c.SkipModules = *f.SkipModules
	}
	_, err := c.resolved()
	return err
}
