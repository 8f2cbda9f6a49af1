package checkpoint_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/checkpoint"
)

func Example() {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := checkpoint.Open(dir, checkpoint.Options{Keep: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	for step := 10; step <= 30; step += 10 {
		_, err := store.Write(step, func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "state"), []byte{byte(step)}, 0o666)
		})
		if err == nil {
			err = store.Rotate()
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	latest, err := store.Latest()
	fmt.Println(filepath.Base(latest), err)
	fmt.Println(store.Steps())
	// Output:
	// checkpoint-30 <nil>
	// [30] <nil>
}
