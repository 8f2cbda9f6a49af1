package curves_test

import (
	"bytes"
	"fmt"
	"image/png"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/curves"
)

// The history of a run, [trainer.Result].History, becomes a picture with a panel for each name.
func Example() {
	history := []trainer.Logs{
		{"step": 50, "epoch": 1, "loss": 0.9}, {"step": 50, "epoch": 1, "eval_cer": 0.40},
		{"step": 100, "epoch": 2, "loss": 0.4}, {"step": 100, "epoch": 2, "eval_cer": 0.12},
	}
	var picture bytes.Buffer
	if err := curves.Write(&picture, history, "loss", "eval_cer"); err != nil {
		fmt.Println(err)
		return
	}
	_, err := png.DecodeConfig(&picture)
	fmt.Println("a PNG:", err == nil)
	fmt.Println(curves.Write(&picture, history, "eval_wer"))
	// Output:
	// a PNG: true
	// curves: the log has no values of ["eval_wer"] (4 rows)
}
