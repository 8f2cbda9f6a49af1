package golden

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
)

// comparisonLog counts what a test has compared, and logs it when the test ends.
type comparisonLog struct {
	mu              sync.Mutex
	compared, equal int
	count           *goldencount.Case
}

var (
	testsMu sync.Mutex
	tests   = map[testing.TB]*comparisonLog{}
)

// comparisons returns the log of a test. A test that has started no case of package goldencount
// counts as a case itself.
func comparisons(t testing.TB) *comparisonLog {
	testsMu.Lock()
	defer testsMu.Unlock()
	if c, ok := tests[t]; ok {
		return c
	}
	c := &comparisonLog{count: goldencount.Of(t)}
	if c.count == nil {
		dir, err := os.Getwd() // the folder of the package under test
		if err != nil {
			t.Fatal(err)
		}
		c.count = goldencount.Start(t, "tests of "+filepath.Base(dir), t.Name())
	}
	tests[t] = c
	t.Cleanup(func() {
		testsMu.Lock()
		delete(tests, t)
		testsMu.Unlock()
		c.report(t)
	})
	return c
}

func (c *comparisonLog) add(equal bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.compared++
	if equal {
		c.equal++
	} else {
		c.count.Explain(testenv.Deviation())
	}
	c.count.Compare(equal)
}

func (c *comparisonLog) report(t testing.TB) {
	if why := testenv.Deviation(); why != "" {
		t.Logf("%d golden values, %d of them equal in every bit, the others within some last places: %s", c.compared,
			c.equal,
			why)
		return
	}
	t.Logf("%d golden values, compared to the last bit", c.compared)
}
