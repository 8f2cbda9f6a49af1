package dist

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestTheEnvironmentSaysWhichProcessThisIs(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want Options
		err  string
	}{
		{"nothing means alone", nil, Options{World: 1}, ""},
		{"torchrun", map[string]string{"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a",
			"MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True"},
			Options{Rank: 3, LocalRank: 1, World: 4, Address: "a:29500", Store: true}, ""},
		{"srun", map[string]string{"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_STEP_NUM_TASKS": "4",
			"SLURM_STEP_NODELIST": "gpu[03-05],x", "SLURM_JOB_ID": "123456"},
			Options{Rank: 3, LocalRank: 1, World: 4, Address: "gpu03:23456"}, ""},
		{"the script of a Slurm job is alone", map[string]string{"SLURM_PROCID": "0", "SLURM_NTASKS": "4"},
			Options{World: 1}, ""},
		{"torchrun goes before srun", map[string]string{"WORLD_SIZE": "1", "SLURM_PROCID": "3",
			"SLURM_STEP_NUM_TASKS": "4"}, Options{World: 1}, ""},
		{"a rank that is no number", map[string]string{"RANK": "x"}, Options{}, `RANK="x"`},
		{"a rank beyond the world", map[string]string{"RANK": "2", "WORLD_SIZE": "2", "MASTER_ADDR": "a",
			"MASTER_PORT": "1"}, Options{}, "rank 2, local rank 0 of 2"},
		{"no place to meet", map[string]string{"WORLD_SIZE": "2"}, Options{}, "MASTER_ADDR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Options{Getenv: func(name string) string { return c.env[name] }}.resolved()
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Rank != c.want.Rank || got.LocalRank != c.want.LocalRank || got.World != c.want.World ||
				got.Address != c.want.Address || got.Store != c.want.Store {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	for _, o := range []Options{{World: -1}, {World: 2, Rank: 2, Address: "a:1"}, {World: 2, Address: "a"}, {Rank: 1},
		{World: 1, Timeout: -time.Second}} {
		if _, err := o.resolved(); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}

func TestFirstNodeOfSlurmsLists(t *testing.T) {
	for list, want := range map[string]string{"": "", "n1": "n1", "n1,n2": "n1", "gpu[03-05,9],x": "gpu03",
		"gpu[7]": "gpu7", "r[1,3]-ib,z": "r1-ib"} {
		if got := firstNode(list); got != want {
			t.Errorf("firstNode(%q) = %q, want %q", list, got, want)
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(header{kind: kindCall, op: Sum, number: float64s, call: 7, name: 12, length: 400}.append(nil))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHeader(bytes.NewReader(b))
		if err != nil {
			return
		}
		b[3] = 0 // padding
		if !bytes.Equal(h.append(nil), b[:headerSize]) {
			t.Errorf("%+v is written as % x, was read from % x", h, h.append(nil), b[:headerSize])
		}
	})
}
