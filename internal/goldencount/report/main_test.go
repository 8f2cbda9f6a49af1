package main

import (
	"strings"
	"testing"
)

const (
	equal     = `{"Family":"schedules","Name":"a","Compared":2,"Equal":2}` + "\n"
	nearly    = `{"Family":"schedules","Name":"b","Compared":3,"Equal":1,"Reason":"the C library"}` + "\n"
	again     = `{"Family":"schedules","Name":"a","Compared":1,"Equal":0,"Reason":"another road"}` + "\n"
	nothing   = `{"Family":"schedules","Name":"c"}` + "\n"
	failed    = `{"Family":"optimizers","Name":"a","Compared":1,"Equal":1,"Failed":true}` + "\n"
	noReason  = `{"Family":"optimizers","Name":"a","Compared":1,"Equal":0}` + "\n"
	malformed = "{\n"
)

func TestReport(t *testing.T) {
	for _, c := range []struct {
		claim, records string
		least          int
		out, err       string // parts of the output
	}{
		{"all equal", equal, 1, "1 compared cases: 1 bitwise, 0 within tolerance, 0 failed", ""},
		{"a case with a reason is listed", equal + nearly, 2, "2 compared cases: 1 bitwise, 1 within tolerance, 0 " +
			"failed\nthe C library:\n  schedules/b: 2 of 3\n", ""},
		{"a case that two tests compare counts once", equal + again, 1,
			"1 compared cases: 0 bitwise, 1 within tolerance", ""},
		{"a case without comparisons is none", equal + nothing, 2, "1 compared cases", "want at least 2"},
		{"a failed test", failed, 0, "THE TEST FAILED", "1 cases failed or differ"},
		{"a difference without a reason", noReason, 0, "NO REASON IS GIVEN", "1 cases failed or differ"},
		{"a malformed line is named", equal + malformed, 0, "", "line 2"},
		{"no cases at all", "", 0, "0 compared cases: 0 bitwise", ""},
	} {
		var out strings.Builder
		err := report(strings.NewReader(c.records), &out, c.least)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want one with %q", c.claim, err, c.err)
		}
		if !strings.Contains(out.String(), c.out) {
			t.Errorf("%s: printed\n%s\nwant %q in it", c.claim, &out, c.out)
		}
	}
}
