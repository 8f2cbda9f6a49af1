package trainer

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

func TestWindowMeanBitsEqualTorch(t *testing.T) {
	var golden struct {
		Cases []struct {
			Values []float64
			Mean   float64
		}
	}
	text, err := os.ReadFile("testdata/mean32.json") // written by testdata/mean32.py
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &golden); err != nil || len(golden.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(golden.Cases), err)
	}
	for _, c := range golden.Cases {
		l := losses{report: semantics.WindowMean}
		for _, v := range c.Values {
			l.batch(BatchLoss{Loss: v}, 1, false, 1)
		}
		l.updated()
		if got := l.value(); got != c.Mean {
			t.Errorf("mean of %d numbers is %x, torch says %x", len(c.Values), got, c.Mean)
		}
	}
}

func TestARunningMeanDividesAShortWindowByTheFullLength(t *testing.T) {
	l := losses{report: semantics.RunningMean}
	for i := range 10 {
		l.batch(BatchLoss{Loss: 1}, 1, i == 3 || i == 7 || i == 9, 4)
	}
	// as Hezar displays a constant loss of 1: 0.8333
	if got, want := l.value(), (1+1+0.5)/3.0; math.Abs(got-want) > 1e-15 {
		t.Errorf("running mean is %v, want %v", got, want)
	}
}

func TestLossesSurviveACheckpoint(t *testing.T) {
	for _, report := range []semantics.LossReport{semantics.RunningMean, semantics.EpochMean, semantics.WindowMean} {
		for _, bad := range []float64{0.5, math.NaN(), math.Inf(1)} {
			l := losses{report: report}
			for i, v := range []float64{1, 2, bad} {
				l.batch(BatchLoss{Loss: v, Divided: v / 2}, i+1, i%2 == 1, 2)
			}
			text, err := json.Marshal(l.state())
			if err != nil {
				t.Fatal(err)
			}
			var s lossState
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			again := losses{report: report}
			again.restore(&s, semantics.Rules{}, 3)
			l.batch(BatchLoss{Loss: 4, Divided: 2}, 1, true, 2)
			again.batch(BatchLoss{Loss: 4, Divided: 2}, 1, true, 2)
			l.updated()
			again.updated()
			if a, b := l.value(), again.value(); a != b && !(math.IsNaN(a) && math.IsNaN(b)) {
				t.Errorf("report %d with %v: %v without a checkpoint, %v with one", report, bad, a, b)
			}
		}
	}
}
