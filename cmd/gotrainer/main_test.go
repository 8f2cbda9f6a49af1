package main

import (
	"testing"

	"github.com/alecthomas/kong"
)

func TestCommandThatDoesNotExistIsCalledSo(t *testing.T) {
	app := kong.Must(new(commands)).Model
	for _, args := range [][]string{nil, {"--help"}, {"install", "--cuda"}, {"launch", "-n", "2", "runs"}, {"doctor"}} {
		if err := checkCommand(app, args); err != nil {
			t.Errorf("gotrainer %q: %v, want it left to the parser", args, err)
		}
	}
	want := `there is no command "runs"; there are install, launch, convert, config, doctor, which gotrainer --help explains`
	if err := checkCommand(app, []string{"runs", "compare"}); err == nil || err.Error() != want {
		t.Errorf("gotrainer runs compare: %v, want %s", err, want)
	}
}
