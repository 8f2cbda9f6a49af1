package main

import (
	"reflect"
	"testing"

	"github.com/alecthomas/kong"
)

func TestLaunchLeavesTheProgramItsFlags(t *testing.T) {
	for _, c := range []struct {
		args    []string
		command []string
	}{
		{[]string{"launch", "-n", "2", "./train", "-n", "7", "--epochs=3"}, []string{"./train", "-n", "7",
			"--epochs=3"}},
		{[]string{"launch", "--nproc-per-node", "2", "--nnodes=2", "--node-rank=1", "--master=a:1", "./train"},
			[]string{"./train"}},
	} {
		var all commands
		parser, err := kong.New(&all)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parser.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if all.Launch.Processes != 2 || !reflect.DeepEqual(all.Launch.Command, c.command) {
			t.Errorf("%q: %+v, want the command %q", c.args, all.Launch, c.command)
		}
	}
}
