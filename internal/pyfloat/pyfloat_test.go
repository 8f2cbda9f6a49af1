package pyfloat_test

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

func TestNumbersAreWrittenAndRoundedAsPythonDoes(t *testing.T) {
	text, err := os.ReadFile("testdata/floats.json") // written by testdata/floats.py
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Bits, Repr, YAML string
		Rounded          map[int]string // by number of decimals
	}
	if err := json.Unmarshal(text, &rows); err != nil || len(rows) < 200 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	fromBits := func(text string) float64 {
		n, err := strconv.ParseUint(text, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return math.Float64frombits(n)
	}
	for _, row := range rows {
		v := fromBits(row.Bits)
		if got := pyfloat.Repr(v); got != row.Repr {
			t.Errorf("Repr(%x) = %s, want %s", v, got, row.Repr)
		}
		if got := pyfloat.YAML(v); got != row.YAML {
			t.Errorf("YAML(%x) = %s, want %s", v, got, row.YAML)
		}
		for decimals, rounded := range row.Rounded {
			if got, want := pyfloat.Round(v, decimals),
				fromBits(rounded); math.Float64bits(got) != math.Float64bits(want) {
				t.Errorf("Round(%x, %d) = %v, want %v", v, decimals, got, want)
			}
		}
	}
}

func TestReprReadsBackAsTheSameNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
		got, err := strconv.ParseFloat(pyfloat.Repr(v), 64)
		if math.IsNaN(v) && math.IsNaN(got) {
			return
		}
		if err != nil || math.Float64bits(got) != math.Float64bits(v) {
			t.Fatalf("%s reads as %v, want %v", pyfloat.Repr(v), got, v)
		}
	})
}

func TestRoundLeavesWhatIsNotFinite(t *testing.T) {
	if got := pyfloat.Round(math.Inf(-1), 2); !math.IsInf(got, -1) {
		t.Errorf("Round(-inf, 2) = %v", got)
	}
	if got := pyfloat.Round(math.NaN(), 2); !math.IsNaN(got) {
		t.Errorf("Round(nan, 2) = %v", got)
	}
}

// The sums were computed with numpy 2.4.6: numpy.array([1/(i+1) for i in range(n)]).sum(), and
// .astype(float32).sum().
func TestPairwiseSumIsNumpys(t *testing.T) {
	for _, c := range []struct {
		n      int
		double float64
		single float32
	}{
		{5, 0x1.2444444444444p+1, 0x1.244446p+1}, {100, 0x1.4bfdfe4591243p+2, 0x1.4bfe02p+2},
		{1003, 0x1.df43022d5231ap+2, 0x1.df4306p+2},
	} {
		double, single := make([]float64, c.n), make([]float32, c.n)
		for i := range double {
			double[i] = 1 / float64(i+1)
			single[i] = float32(double[i])
		}
		if got := pyfloat.PairwiseSum(double); got != c.double {
			t.Errorf("%d float64 sum up to %x, want %x", c.n, got, c.double)
		}
		if got := pyfloat.PairwiseSum(single); got != c.single {
			t.Errorf("%d float32 sum up to %x, want %x", c.n, got, c.single)
		}
	}
}
