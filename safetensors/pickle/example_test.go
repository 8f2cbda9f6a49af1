package pickle_test

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

func ExampleOpen() {
	f, err := pickle.Open("testdata/checkpoint.pt")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close() //nolint:errcheck // it was only read
	for _, t := range f.Tensors()[:2] {
		fmt.Println(t.Name, t.DType, t.Shape)
	}
	epoch, _ := f.Value().(*pickle.Dict).Get("epoch")
	fmt.Println("epoch", epoch)
	// Output:
	// model.0.weight F32 [2 2]
	// model.0.bias F32 [2]
	// epoch 3
}

// A pickled module refers to its class, which Python would import and call.
func ExampleOpen_forbidden() {
	_, err := pickle.Open("testdata/module.pt")
	var fault *pickle.FormatError
	if errors.As(err, &fault) {
		fmt.Println(fault.Err)
		fmt.Println(fault.Name)
	}
	// Output:
	// the file asks for something that no tensor needs
	// torch.nn.modules.container.Sequential
}
