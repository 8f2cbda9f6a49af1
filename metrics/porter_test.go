package metrics_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/metrics"
)

func TestStemsAreThoseOfNLTK(t *testing.T) {
	stems := loadMore(t).Stems
	if len(stems) < 100 {
		t.Fatalf("%d words, want at least 100", len(stems))
	}
	for word, want := range stems {
		if got := metrics.Stem(word); got != want {
			t.Errorf("stem(%q) = %q, want %q", word, got, want)
		}
	}
}
