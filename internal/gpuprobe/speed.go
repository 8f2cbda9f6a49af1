package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// wait waits until the device has finished all work.
func (m machine) wait() {
	if m.device.IsCUDA() {
		cuda.Synchronize(m.device)
	}
}

// waits counts the calls of the CUDA runtime per step, from profiles of a few and of more updates.
func waits(m machine) (a answer) {
	dir, err := os.MkdirTemp("", "gpuprobe-")
	if err != nil {
		a.expect(false, "%v", err)
		return a
	}
	defer os.RemoveAll(dir)
	found := map[string]any{}
	precisions := []amp.Precision{amp.FP32, amp.BF16}
	if m.device.IsCUDA() {
		precisions = append(precisions, amp.FP16)
	}
	few, more := 3, m.less(13, 4)
	for _, t := range trainings(m, 0.1) {
		for _, p := range precisions {
			name := t.name + " " + p.String()
			count := func(updates int) (map[string]float64, error) {
				path := filepath.Join(dir, "trace.json")
				var failed error
				err := torch.Profile(path, torch.ProfileOptions{}, func() {
					failed = t.train(recipe{updates: updates, engine: on(m, p)})
				})
				if failed != nil || err != nil {
					return nil, fmt.Errorf("%s: %w", name, cmp.Or(failed, err))
				}
				return countCalls(path)
			}
			before, err := count(few)
			var after map[string]float64
			if err == nil {
				after, err = count(more)
			}
			if a.expect(err == nil, "%v", err); err != nil {
				continue
			}
			each := map[string]float64{}
			for call, n := range after {
				if v := (n - before[call]) / float64(more-few); v > 0 {
					each[call] = v
				}
			}
			found[name] = each
			allowed := 0.0
			if p == amp.FP16 {
				allowed = 1 // whether the gradients overflowed, on which the next rate depends
			}
			sum := each["cudaStreamSynchronize"] + each["cudaDeviceSynchronize"] + each["cudaEventSynchronize"]
			a.expect(sum == allowed, "%s: the host waits %.1f times a step; want %g", name, sum, allowed)
		}
	}
	a.found = found
	return a
}

// countCalls counts the events in a trace that concern the GPU, and the operators.
func countCalls(path string) (map[string]float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var trace struct {
		TraceEvents []struct {
			Cat, Name string
			Dur       float64
		}
	}
	if err := json.Unmarshal(text, &trace); err != nil {
		return nil, err
	}
	n := map[string]float64{}
	for _, e := range trace.TraceEvents {
		switch e.Cat {
		case "cuda_runtime", "cuda_driver", "gpu_memcpy", "gpu_memset":
			n[e.Name]++
		case "kernel":
			n["kernels"]++
			n["microseconds of kernels"] += e.Dur
		case "cpu_op":
			n["operators"]++
		}
	}
	return n, nil
}

// threads computes on the device from several goroutines at the same time.
func threads(m machine) (a answer) {
	var wg sync.WaitGroup
	wrong := make([]int, 8)
	for g := range wrong {
		wg.Go(func() {
			for range m.less(200, 5) {
				torch.Scope(func() {
					x := torch.TensorOptions{Device: m.device}.Full(float64(g+1), 64, 64)
					want := float64((g + 1) * (g + 1) * 64 * 64 * 64)
					if x.MatMul(x).Sum(torch.DefaultDType).Item() != want {
						wrong[g]++
					}
				})
			}
		})
	}
	wg.Wait()
	for g, n := range wrong {
		a.expect(n == 0, "goroutine %d: %d wrong products", g, n)
	}
	a.found = wrong
	return a
}

// upload times engine.Input, as called by a task.
func upload(m machine) (a answer) {
	found := map[string]any{}
	for _, kib := range []int{4, 32, 512, 8192, 65536}[:m.less(5, 3)] {
		values := make([]float32, kib<<8)
		p := engine.ForwardPass{Device: m.device}
		n := m.less(50, 2)
		send := func(n int) {
			for range n {
				torch.Scope(func() { engine.Input(p, values) })
			}
			m.wait()
		}
		send(min(n, 5))
		begin := time.Now()
		send(n)
		us := float64(time.Since(begin).Nanoseconds()) / 1e3 / float64(n)
		found[fmt.Sprintf("%d KiB", kib)] = map[string]float64{"us": us, "GB/s": float64(kib) * 1024 / us / 1e3}
	}
	a.found = found
	return a
}

// attention times attention, forward and backward, at first and later, with varying lengths as in
// batches padded to their longest text.
func attention(m machine) (a answer) {
	var found []any
	for _, masked := range []bool{false, true} {
		for i := range m.less(6, 2) {
			length := int64(m.less(60, 8) + 7*i)
			times := map[string]any{"masked": masked, "length": length}
			err := torch.Try(func() {
				torch.Scope(func() {
					o := torch.TensorOptions{Device: m.device, DType: torch.BFloat16}
					rows, heads := int64(m.less(32, 2)), int64(m.less(12, 2))
					tensor := func() torch.Tensor { return o.Randn(rows, heads, length, 64).RequiresGrad() }
					q, k, v, mask := tensor(), tensor(), tensor(), torch.Tensor{}
					if masked {
						ones := torch.TensorOptions{Device: m.device, DType: torch.Bool}.Ones(rows, 1, 1, length)
						mask = ones.Expand(rows, 1, length, length)
					}
					timed := func(n int) float64 {
						begin := time.Now()
						for range n {
							torch.Scope(func() {
								q.ScaledDotProductAttention(k, v, mask, 0.1, false, 0).Sum(torch.Float32).Backward()
							})
							m.wait()
						}
						return time.Since(begin).Seconds() * 1e3 / float64(n)
					}
					times["first ms"] = timed(1)
					times["later ms"] = timed(m.less(5, 1))
				})
			})
			a.expect(err == nil, "masked %t, length %d: %v", masked, length, err)
			found = append(found, times)
		}
	}
	a.found = found
	return a
}
