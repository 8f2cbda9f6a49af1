package columns_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/data/internal/columns"
)

func TestMatch(t *testing.T) {
	type row struct {
		A     string `table:"a b"`
		Label int
		Rest  float64 `table:"rest,optional"`
		Skip  []byte  `table:"-"`
		inner int
	}
	list, err := columns.Of(reflect.TypeFor[row]())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		claim string
		names []string
		want  []int
		err   string
	}{
		{"by tag and by name in any case", []string{"LABEL", "x", "a b", "rest"}, []int{2, 0, 3}, ""},
		{"an optional column may be missing", []string{"a b", "label"}, []int{0, 1, -1}, ""},
		{"a tag fits letter for letter", []string{"A B", "label"}, nil, `no column "a b"`},
		{"two columns that fit are ambiguous", []string{"a b", "label", "Label"}, nil, `two columns "Label"`},
	} {
		got, err := columns.Match(list, c.names)
		if diff := cmp.Diff(c.want, got); diff != "" || (err == nil) != (c.err == "") || err != nil &&
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", c.claim, got, err)
		}
	}
	_ = row{}.inner
}

func TestOfRefuses(t *testing.T) {
	type inner struct{ A int }
	for _, c := range []struct {
		claim string
		t     reflect.Type
		want  string
	}{
		{"what is no struct", reflect.TypeFor[int](), "no struct"},
		{"an embedded struct", reflect.TypeFor[struct{ inner }](), "no exported field"},
		{"a tag on a field that is not exported", reflect.TypeFor[struct {
			a int `table:"a"`
		}](), "not exported"},
		{"another option", reflect.TypeFor[struct {
			A int `table:"a,required"`
		}](), `option "required"`},
		{"one column for two fields", reflect.TypeFor[struct {
			A int
			B int `table:"a"`
		}](), "the same column"},
	} {
		if _, err := columns.Of(c.t); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.claim, err, c.want)
		}
	}
}
