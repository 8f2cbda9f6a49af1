package metrics_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/metrics"
)

// squadCase is a case written by testdata/squad.py.
type squadCase struct {
	Rows []struct {
		Prediction   string
		References   []string
		NoAnswer     float64 `json:"no_answer"`
		Unanswerable bool
	}
	Squad   map[string]float64
	SquadV2 map[string]float64 `json:"squad_v2"`
}

func TestSquadGivesTheNumbersOfEvaluate(t *testing.T) {
	text, err := os.ReadFile("testdata/squad.json")
	require.NoError(t, err)
	var cases []squadCase
	require.NoError(t, json.Unmarshal(text, &cases))
	for i, c := range cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			one, two := metrics.Squad{}, metrics.Squad{NoAnswers: true}
			for _, r := range c.Rows {
				one.Add(metrics.SquadAnswer{Text: r.Prediction}, r.References)
				if r.Unanswerable {
					r.References = nil
				}
				two.Add(metrics.SquadAnswer{Text: r.Prediction, NoAnswer: r.NoAnswer}, r.References)
			}
			require.Equal(t, c.Squad, one.Result(), "version 1")
			require.Equal(t, c.SquadV2, two.Result(), "version 2")
		})
	}
}

func TestSquadOfNothingIsZero(t *testing.T) {
	require.Equal(t, map[string]float64{"exact_match": 0, "f1": 0}, new(metrics.Squad).Result())
	m := metrics.Squad{NoAnswers: true}
	require.Equal(t, map[string]float64{"exact": 0, "f1": 0, "total": 0, "best_exact": 0, "best_exact_thresh": 0,
		"best_f1": 0, "best_f1_thresh": 0}, m.Result())
}

func squadSubject(noAnswers bool) subject {
	return subject{fmt.Sprint("Squad, NoAnswers ", noAnswers), func() (metrics.Merger, func(int),
		func() map[string]float64) {
		m := &metrics.Squad{NoAnswers: noAnswers}
		return m, func(i int) {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			references := []string{line(r), "a b"}
			if noAnswers && i%3 == 0 {
				references = nil
			}
			m.Add(metrics.SquadAnswer{Text: line(r), NoAnswer: r.Float64()}, references)
		}, m.Result
	}}
}
