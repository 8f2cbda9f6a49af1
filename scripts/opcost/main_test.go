package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestThePeersMeasureTheSameCases(t *testing.T) {
	call := regexp.MustCompile(`measure\((?:out, )?"([^"]+)"|\{"([^"]+)", func`)
	want := ""
	for _, c := range cases {
		want += c.name + "\n"
	}
	for _, file := range []string{"cases.go", "peers/opcost.cc", "peers/opcost.py"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			got += m[1] + m[2] + "\n"
		}
		if got != want {
			t.Errorf("%s measures\n%swant\n%s", file, got, want)
		}
	}
}

func TestTheTableShowsMediansAndRatios(t *testing.T) {
	programs := []program{{name: "Go"}, {name: "C++"}}
	for i := range programs {
		programs[i].times = times{}
		for _, c := range cases {
			for _, ns := range []float64{300, 100, 200} {
				programs[i].times[c.name] = append(programs[i].times[c.name], ns/float64(i+1))
			}
		}
	}
	var out strings.Builder
	if err := table(&out, programs); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	if want := "| family | call | Go, ns | C++, ns | Go / C++ |"; lines[0] != want {
		t.Errorf("the head is %q, want %q", lines[0], want)
	}
	if want := "| elementwise | `add` | 200 | 100 | 2.00 |"; lines[2] != want {
		t.Errorf("the first row is %q, want %q", lines[2], want)
	}
	if want := "|  | `mul by a number` | 200 | 100 | 2.00 |"; lines[3] != want {
		t.Errorf("the second row is %q, want %q", lines[3], want)
	}
	delete(programs[1].times, "relu")
	if err := table(&out, programs); err == nil || !strings.Contains(err.Error(), `C++ did not measure "relu"`) {
		t.Errorf("a case that is missing gives %v", err)
	}
}

func TestLinesThatAreNoTimesAreRefused(t *testing.T) {
	for _, line := range []string{"add 12", "add\tfast", "add\t-1", "add\t0", "add\tNaN"} {
		if err := (times{}).read(strings.NewReader(line)); err == nil || !strings.Contains(err.Error(),
			"want name, tab, nanoseconds") {
			t.Errorf("%q gives %v", line, err)
		}
	}
}
