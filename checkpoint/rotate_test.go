package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestRotate(t *testing.T) {
	for _, c := range []struct {
		name    string
		steps   []int
		damaged []int
		keep    int
		protect []int
		want    string
	}{
		{"keeps all by default", []int{1, 2, 3}, nil, 0, nil, "[1 2 3]"},
		{"keeps the newest", []int{1, 2, 10, 9}, nil, 2, nil, "[9 10]"},
		{"has nothing to do", []int{1, 2}, nil, 2, nil, "[1 2]"},
		{"counts the protected", []int{1, 2, 3}, nil, 2, []int{1}, "[1 3]"},
		{"keeps newest and best with Keep 1", []int{1, 2, 3}, nil, 1, []int{1}, "[1 3]"},
		{"keeps one that is newest and best", []int{1, 2, 3}, nil, 1, []int{3}, "[3]"},
		{"keeps more protected than Keep", []int{1, 2, 3, 4, 5}, nil, 2, []int{1, 2, 3}, "[1 2 3 5]"},
		{"does not count a protected one that is gone", []int{2, 3, 4}, nil, 2, []int{1}, "[3 4]"},
		{"does not count a damaged one", []int{1, 2, 3, 4}, []int{4}, 2, nil, "[2 3 4]"},
		{"deletes a damaged one when its time comes", []int{1, 2, 3, 4}, []int{2}, 2, nil, "[3 4]"},
		{"keeps the last whole one, and newer ones that may only be unreadable now", []int{0, 1, 2, 3}, []int{2, 3}, 1,
			nil, "[1 2 3]"},
		{"deletes nothing if none is whole", []int{1, 2}, []int{1, 2}, 1, nil, "[1 2]"},
		{"deletes nothing while too few are whole", []int{1, 2, 3}, []int{1, 3}, 2, nil, "[1 2 3]"},
		{"keeps a protected one though it is damaged", []int{1, 2, 3}, []int{1}, 1, []int{1}, "[1 3]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, t.TempDir(), Options{Keep: c.keep})
			for _, step := range c.steps {
				save(t, s, step, "x")
			}
			for _, step := range c.damaged {
				if err := os.Remove(filepath.Join(s.Path(step), "model.safetensors")); err != nil {
					t.Fatal(err)
				}
			}
			var protect []string
			for _, step := range c.protect {
				protect = append(protect, s.Path(step))
			}
			if err := s.Rotate(protect...); err != nil {
				t.Fatal(err)
			}
			if steps, err := s.Steps(); fmt.Sprint(steps) != c.want || err != nil {
				t.Errorf("left %v (%v), want %s", steps, err, c.want)
			}
		})
	}
}

func TestRotateLeavesNothingHidden(t *testing.T) {
	s := open(t, t.TempDir(), Options{Keep: 1})
	save(t, s, 1, "x")
	save(t, s, 2, "x")
	put(t, filepath.Join(s.Dir(), "notes"), nil)
	if err := s.Rotate(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s.Dir()); fmt.Sprint(got) != "[checkpoint-2 notes]" {
		t.Errorf("the folder holds %v, want checkpoint-2 and files that are not checkpoints", got)
	}
}

// TestChooseNeverLosesTheNewestOrAProtectedOne tries random folders in any state.
func TestChooseNeverLosesTheNewestOrAProtectedOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &Store{dir: "/run", options: Options{Prefix: "checkpoint", Keep: rapid.IntRange(1, 4).Draw(t, "keep")}}
		steps := rapid.SliceOfDistinct(rapid.IntRange(0, 20), rapid.ID[int]).Draw(t, "steps")
		slices.Sort(steps)
		slices.Reverse(steps)
		whole := map[int]bool{}
		newest := -1
		for _, step := range steps {
			whole[step] = rapid.Bool().Draw(t, "whole")
			if whole[step] && newest < 0 {
				newest = step
			}
		}
		var protect []string
		protected := rapid.SliceOfN(rapid.IntRange(0, 20), 0, 3).Draw(t, "protected")
		for _, step := range protected {
			protect = append(protect, s.Path(step))
		}
		keep := s.choose(steps, whole, protect, s.options.Keep)
		if newest >= 0 && !keep[newest] {
			t.Fatalf("the newest whole one, %d, is not kept: %v", newest, keep)
		}
		good, all := 0, 0
		for _, step := range steps {
			if whole[step] {
				all++
			}
			if step > newest && !keep[step] {
				t.Fatalf("%d is newer than any whole one and not kept: %v", step, keep)
			}
			if slices.Contains(protected, step) && !keep[step] {
				t.Fatalf("the protected %d is not kept: %v", step, keep)
			}
			if keep[step] && whole[step] {
				good++
			}
		}
		if good < min(s.options.Keep, all) {
			t.Fatalf("%d of %d whole ones are kept, want %d: %v", good, all, s.options.Keep, keep)
		}
	})
}
