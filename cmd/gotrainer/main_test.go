package main

import (
	"fmt"
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
	want := `unknown command "runs"; the commands are install, launch, convert, config, doctor, see gotrainer --help`
	if err := checkCommand(app, []string{"runs", "compare"}); err == nil || err.Error() != want {
		t.Errorf("gotrainer runs compare: %v, want %s", err, want)
	}
}

func TestHelpIsACommandToo(t *testing.T) {
	for want, args := range map[string][]string{
		"[--help]": {"help"}, "[launch --help]": {"help", "launch"}, "[launch help]": {"launch", "help"}, "[]": nil,
	} {
		if got := fmt.Sprint(helpLast(args)); got != want {
			t.Errorf("gotrainer %q is read as %s, want %s", args, got, want)
		}
	}
}
