package lr_test

import (
	"fmt"

	"github.com/gotrainer/gotrainer/optim/lr"
)

func Example() {
	rate := lr.Linear{Warmup: 2}.Plan(0.1, 6)
	for update := range 6 {
		fmt.Printf("%.3f ", rate(update))
	}
	// Output: 0.000 0.050 0.100 0.075 0.050 0.025
}

// A warmup below 1 is a share of the run, rounded up.
func ExampleCosine() {
	rate := lr.Cosine{Warmup: 0.1}.Plan(1, 10)
	fmt.Printf("%.2f %.2f %.2f", rate(0), rate(1), rate(9))
	// Output: 0.00 1.00 0.03
}

// A schedule as a configuration file of transformers names it.
func ExampleByName() {
	schedule, err := lr.ByName("cosine_with_restarts", map[string]any{"num_cycles": 2}, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	rate := schedule.Plan(1, 8)
	fmt.Printf("%.2f %.2f %.2f %.2f %.2f\n", rate(0), rate(2), rate(4), rate(6), rate(8))

	_, err = lr.ByName("cosine_with_restarts", map[string]any{"cycles": 2}, 0)
	fmt.Println(err)
	// Output:
	// 1.00 0.50 1.00 0.50 0.00
	// lr: unknown argument of cosine_with_restarts "cycles"; did you mean "num_cycles"? known: num_cycles, num_warmup_steps
}

// Momentum falls while the rate rises.
func ExampleOneCycleLR() {
	cycle := lr.OneCycleLR{PctStart: new(0.4)}
	rate, momentum := cycle.Plan(0.1, 10), cycle.PlanMomentum(10)
	for _, update := range []int{0, 3, 9} {
		fmt.Printf("update %d: rate %.5f, momentum %.2f\n", update, rate(update), momentum(update))
	}
	// Output:
	// update 0: rate 0.00400, momentum 0.95
	// update 3: rate 0.10000, momentum 0.85
	// update 9: rate 0.00000, momentum 0.95
}

// A warmup before any schedule of PyTorch.
func ExampleSequentialLR() {
	rate := lr.SequentialLR{
		Schedules:  []lr.Schedule{lr.LinearLR{StartFactor: 0.25, TotalIters: 3}, lr.ExponentialLR{Gamma: 0.5}},
		Milestones: []int{3},
	}.Plan(0.1, 7)
	for update := range 7 {
		fmt.Printf("%.4f ", rate(update))
	}
	// Output: 0.0250 0.0500 0.0750 0.1000 0.0500 0.0250 0.0125
}

// A fall every two epochs of three updates.
func ExamplePerEpoch() {
	rate := lr.PerEpoch{Schedule: lr.StepLR{StepSize: 2}, Updates: 3}.Plan(0.1, 9)
	fmt.Printf("%.2f %.2f %.2f", rate(0), rate(5), rate(6))
	// Output: 0.10 0.10 0.01
}

// The loss of each evaluation determines the rate.
func ExampleReduceLROnPlateau() {
	controller, err := lr.ReduceLROnPlateau{Patience: new(0)}.Start(0.1)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, loss := range []float64{2.0, 1.5, 1.6, 1.4} {
		fmt.Printf("%.3f\n", controller.Observe(loss))
	}
	state, _ := controller.State()
	fmt.Printf("%s", state)
	// Output:
	// 0.100
	// 0.100
	// 0.010
	// 0.010
	// {"best":1.4,"num_bad_epochs":0,"cooldown_counter":0,"last_epoch":4,"last_lr":0.010000000000000002}
}

// An error says what is wrong with the settings.
func ExampleValidate() {
	fmt.Println(lr.Validate(lr.OneCycleLR{PctStart: new(1.5)}, 0.1, 100))
	fmt.Println(lr.Validate(lr.Polynomial{LREnd: new(0.2)}, 0.1, 100))
	// Output:
	// lr: OneCycleLR.PctStart is 1.5: want a number between 0 and 1
	// lr: Polynomial.LREnd is 0.2: want less than the peak rate
}
