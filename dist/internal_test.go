package dist

import (
	"bytes"
	"math"
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

func TestHalvesSurviveTheWayToFloat32AndBack(t *testing.T) {
	for _, d := range []DType{Float16, BFloat16} {
		for h := range 1 << 16 {
			f := widen(d, uint16(h))
			got := narrow(d, f)
			if f != f {
				if back := widen(d, got); back == back {
					t.Fatalf("%s %#x: nan became %v", d, h, back)
				}
			} else if got != uint16(h) {
				t.Fatalf("%s %#x is %v, and back %#x", d, h, f, got)
			}
		}
	}
}

func TestHalvesRoundToTheNearestAndTiesToEven(t *testing.T) {
	for _, d := range []DType{Float16, BFloat16} {
		for h := range uint16(0x7bff) {
			a, b := float64(widen(d, h)), float64(widen(d, h+1))
			middle := float32(a + (b-a)/2) // exact: both have few digits
			even := h + h&1
			if got := narrow(d, middle); got != even {
				t.Fatalf("%s: %v, between %#x and %#x, became %#x, want %#x", d, middle, h, h+1, got, even)
			}
			if below := math.Nextafter32(middle, 0); narrow(d, below) != h {
				t.Fatalf("%s: %v became %#x, want %#x", d, below, narrow(d, below), h)
			}
			if above := math.Nextafter32(middle, float32(math.Inf(1))); narrow(d, above) != h+1 {
				t.Fatalf("%s: %v became %#x, want %#x", d, above, narrow(d, above), h+1)
			}
			if d == Float16 && h >= 0x7bfe || d == BFloat16 && h >= 0x7bfe {
				break
			}
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add(header{kind: kindAllReduce, op: Sum, dtype: Float32, call: 7, count: 100, length: 400}.append(nil))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHeader(bytes.NewReader(b))
		if err != nil {
			return
		}
		if h.String() == "" || !bytes.Equal(h.append(nil), b[:headerSize]) {
			t.Errorf("%+v is written as % x, was read from % x", h, h.append(nil), b[:headerSize])
		}
	})
}
