package safetensors_test

import (
	"bytes"
	"fmt"

	"github.com/gotrainer/gotrainer/safetensors"
)

func Example() {
	var file bytes.Buffer
	err := safetensors.Write(&file, []safetensors.Entry{
		{Name: "bias", DType: safetensors.BF16, Shape: []int64{2}, Data: safetensors.Bytes([]byte{0, 0, 0x80, 0x3f})},
		{Name: "weight", DType: safetensors.U8, Shape: []int64{2, 2}, Data: safetensors.Bytes([]byte{1, 2, 3, 4})},
	}, map[string]string{"format": "pt"})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := safetensors.NewReader(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range r.Tensors() {
		data, err := r.Read(t.Name)
		fmt.Println(t.Name, t.DType, t.Shape, data, err)
	}
	// Output:
	// bias BF16 [2] [0 0 128 63] <nil>
	// weight U8 [2 2] [1 2 3 4] <nil>
}
