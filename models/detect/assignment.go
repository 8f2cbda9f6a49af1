package detect

import (
	"errors"
	"math"
	"slices"
)

// linearSumAssignment pairs rows with columns so that the sum of their costs is the smallest there
// is. Each row has one column, or each column one row if there are fewer of them. The cost of row i
// and column j is costs[i*columns+j]. The pairs are sorted by row; among several best pairings it
// finds the one that scipy.optimize.linear_sum_assignment finds.
//
// The method is that of D. F. Crouse, "On implementing 2D rectangular assignment algorithms", 2016:
// one row after another is paired along a shortest augmenting path.
func linearSumAssignment(costs []float64, rows, columns int) (pairs [][2]int, err error) {
	for _, c := range costs {
		if math.IsNaN(c) || math.IsInf(c, -1) {
			return nil, errors.New("the costs of the matching contain NaN or -Inf")
		}
	}
	if rows == 0 || columns == 0 {
		return nil, nil
	}
	if columns < rows { // the search wants at least as many columns as rows
		turned := make([]float64, len(costs))
		for i := range rows {
			for j := range columns {
				turned[j*rows+i] = costs[i*columns+j]
			}
		}
		s := newAssignment(turned, columns, rows)
		if err := s.solve(); err != nil {
			return nil, err
		}
		for j, i := range s.columnOf {
			pairs = append(pairs, [2]int{i, j})
		}
		slices.SortFunc(pairs, func(a, b [2]int) int { return a[0] - b[0] })
		return pairs, nil
	}
	s := newAssignment(costs, rows, columns)
	if err := s.solve(); err != nil {
		return nil, err
	}
	for i, j := range s.columnOf {
		pairs = append(pairs, [2]int{i, j})
	}
	return pairs, nil
}

// assignment is the state of the search.
type assignment struct {
	costs           []float64
	columns         int
	u, v            []float64 // dual variables of rows and columns
	columnOf, rowOf []int     // the pairs so far; -1: none
	shortest        []float64 // cost of the shortest path to each column
	from            []int     // the row before each column on that path
	rowSeen, seen   []bool    // rows and columns of the tree of paths
	remaining       []int     // columns outside it
}

func newAssignment(costs []float64, rows, columns int) *assignment {
	none := func(n int) []int { return slices.Repeat([]int{-1}, n) }
	return &assignment{costs: costs, columns: columns, u: make([]float64, rows), v: make([]float64, columns),
		columnOf: none(rows), rowOf: none(columns), shortest: make([]float64, columns), from: none(columns),
		rowSeen: make([]bool, rows), seen: make([]bool, columns), remaining: make([]int, columns)}
}

// solve pairs all rows.
func (s *assignment) solve() error {
	for row := range s.u {
		sink, length := s.path(row)
		if sink < 0 {
			return errors.New("the costs of the matching are infinite, whatever is paired")
		}
		s.u[row] += length
		for i, seen := range s.rowSeen {
			if seen && i != row {
				s.u[i] += length - s.shortest[s.columnOf[i]]
			}
		}
		for j, seen := range s.seen {
			if seen {
				s.v[j] -= length - s.shortest[j]
			}
		}
		for j, i := sink, -1; i != row; {
			i = s.from[j]
			s.rowOf[j] = i
			s.columnOf[i], j = j, s.columnOf[i]
		}
	}
	return nil
}

// path finds the shortest path from a row to a column that has no row, and its length. The column
// is -1 if there is none.
func (s *assignment) path(row int) (sink int, length float64) {
	remaining := s.remaining
	for i := range remaining { // from the last, so that equal costs pair each row with its own number
		remaining[i] = s.columns - 1 - i
		s.shortest[i], s.seen[i] = math.Inf(1), false
	}
	clear(s.rowSeen)
	for {
		s.rowSeen[row] = true
		best, lowest := -1, math.Inf(1)
		for at, j := range remaining {
			if r := length + s.costs[row*s.columns+j] - s.u[row] - s.v[j]; r < s.shortest[j] {
				s.shortest[j], s.from[j] = r, row
			}
			// Among equal ones, a column without a row ends the search.
			if s.shortest[j] < lowest || s.shortest[j] == lowest && s.rowOf[j] < 0 {
				lowest, best = s.shortest[j], at
			}
		}
		if length = lowest; math.IsInf(lowest, 1) {
			return -1, 0
		}
		j := remaining[best]
		s.seen[j] = true
		if s.rowOf[j] < 0 {
			return j, length
		}
		row = s.rowOf[j]
		remaining[best] = remaining[len(remaining)-1]
		remaining = remaining[:len(remaining)-1]
	}
}
