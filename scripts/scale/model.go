package main

import (
	"math"
	"time"
)

// assumptions are the model's parameters of the machines. None of them was measured by this
// project.
type assumptions struct {
	peak        float64       // operations per second of a GPU, dense bf16
	perNode     int           // GPUs per machine
	nvlink, nic float64       // bytes per second of collectives within a machine; per GPU between machines
	nvlinkHop   time.Duration // latency of one step of a collective within a machine
	nicHop      time.Duration // and between machines
	bucket      float64       // bytes of gradients reduced at a time
	last        float64       // bytes of the last bucket, which no backward pass hides

	// For inGo: bytes per second of a connection, of a copy to or from a GPU and of sums, and the
	// cost of each process per bucket.
	host, copied, added float64
	message             time.Duration
}

// h200 is a machine with eight H200s, NVLink 4 and a NIC of 400 Gb/s per GPU: bandwidths are 80 %
// of 450 GB/s and 90 % of 50.
var h200 = assumptions{
	peak: 989e12, perNode: 8, nvlink: 360e9, nic: 45e9,
	nvlinkHop: 12 * time.Microsecond, nicHop: 25 * time.Microsecond, bucket: 25e6, last: 1e6,
	host: 1.1e9, copied: 25e9, added: 1.6e9, message: 30 * time.Microsecond,
}

// workload is a model and the batch of one GPU.
type workload struct {
	name       string
	parameters float64
	operations float64 // of the forward and backward pass over a GPU's batch
	mfu        float64 // fraction of the peak that they reach
	sharded    bool    // ZeRO-3, otherwise DistributedDataParallel
	layers     float64 // number of ZeRO-3 units
	again      float64 // fraction that activation checkpointing computes twice
}

// Operations are 6 per token and parameter outside of embeddings, and for attention 12 per layer,
// pair of tokens and column, unless that is negligible.
var workloads = []workload{
	{name: "BERT-base, 128 x 128 tokens", parameters: 110e6, mfu: 0.40,
		operations: 6*86e6*128*128 + 12*12*128*768*128*128},
	{name: "BERT-large, 32 x 512 tokens", parameters: 335e6, mfu: 0.40,
		operations: 6*303e6*32*512 + 12*24*512*1024*32*512},
	{name: "CRNN, 256 pictures", parameters: 8.7e6, mfu: 0.40, operations: 8 * 173e9},
	{name: "7B, 2 x 4096 tokens", parameters: 7e9, mfu: 0.45, operations: 6 * 7e9 * 8192,
		sharded: true, layers: 32, again: 0.33},
	{name: "70B, 2 x 4096 tokens", parameters: 70e9, mfu: 0.45, operations: 6 * 70e9 * 8192,
		sharded: true, layers: 80, again: 0.33},
}

// step is the cost of an update in seconds.
type step struct{ compute, traffic, shows float64 }

// efficiency is the fraction of an update that is computation.
func (s step) efficiency() float64 { return s.compute / (s.compute + s.shows) }

// collective is the time of a collective over n GPUs for a tensor of the given size. An all-reduce
// makes 2 passes over it, a reduce-scatter or all-gather 1. Collectives are hierarchical: traffic
// within and between machines overlaps, so the longer counts, and a tenth of the shorter.
func (a assumptions) collective(bytes float64, n int, passes float64) float64 {
	local, nodes := float64(min(n, a.perNode)), float64(max(1, n/a.perNode))
	inside := passes*(local-1)/local*bytes/a.nvlink + passes*math.Log2(max(local, 2))*a.nvlinkHop.Seconds()
	between := 0.0
	if nodes > 1 {
		between = passes*(nodes-1)/nodes*(bytes/local)/a.nic + passes*math.Log2(nodes)*a.nicHop.Seconds()
	}
	return max(inside, between) + 0.1*min(inside, between)
}

// compute is the time of the computation alone.
func (a assumptions) compute(w workload) float64 {
	return w.operations / (a.peak * w.mfu) * (1 + w.again)
}

// update is the cost of an update on n GPUs.
func (a assumptions) update(w workload, n int) step {
	if w.sharded {
		return a.fullShard(w, n)
	}
	return a.ddp(w, n)
}

// ddp is the cost with DistributedDataParallel: gradients are reduced in float32, bucket by bucket,
// while the backward pass, two thirds of an update, computes the next ones.
func (a assumptions) ddp(w workload, n int) step {
	bytes := 4 * w.parameters
	buckets := max(1, math.Ceil(bytes/a.bucket))
	s := step{compute: a.compute(w), traffic: buckets * a.collective(bytes/buckets, n, 2)}
	hides := s.compute * 2 / 3 * (buckets - 1) / buckets
	s.shows = max(0, s.traffic-hides) + a.collective(min(bytes, a.last), n, 2)
	return s
}

// fullShard is the cost with ZeRO-3: it gathers the bf16 weights of each unit twice and
// reduce-scatters its gradients in float32, one unit ahead of the computation. The first gather and
// the last scatter overlap with nothing.
func (a assumptions) fullShard(w workload, n int) step {
	unit := w.parameters / w.layers
	gather, scatter := a.collective(2*unit, n, 1), a.collective(4*unit, n, 1)
	s := step{compute: a.compute(w), traffic: w.layers * (2*gather + scatter)}
	s.shows = max(0, s.traffic-s.compute) + gather + scatter
	return s
}

// inGo is the cost of this project's first implementation, since removed: after the backward pass,
// gradients are copied to the host, sent through Go connections, summed there and copied back.
func (a assumptions) inGo(w workload, n int) step {
	bytes, others := 4*w.parameters, float64(n-1)/float64(n)
	t := 2*bytes/a.copied + 2*others*bytes/a.host + others*bytes/a.added +
		float64(n)*a.message.Seconds()*math.Ceil(bytes/a.bucket)
	return step{a.compute(w), t, t}
}

// straggler is how much longer than the mean the slowest of n processes takes, in standard
// deviations: about the expected maximum of n normal random numbers.
func straggler(n int) float64 { return math.Sqrt(2 * math.Log(float64(n))) }

// failures holds the assumptions about failing processes.
type failures struct {
	each     time.Duration // mean time between failures of 1,024 GPUs
	interval time.Duration // between checkpoints
	stall    time.Duration // time that training waits for each checkpoint
	hang     time.Duration // until NCCL's own timeout ends a collective with a dead process
}

// The rate is that of Llama 3's pre-training, 419 unexpected interruptions in 54 days of 16,384
// GPUs: one in 49.5 hours for 1,024.
var llama3 = failures{each: 50 * time.Hour, interval: 600 * time.Second, stall: time.Second, hang: 10 * time.Minute}

// between is the mean time between failures of n GPUs.
func (f failures) between(n int) time.Duration { return f.each * 1024 / time.Duration(n) }

// checkpoints is the fraction of time spent on saving and on recomputation, which is half an
// interval per failure.
func (f failures) checkpoints(n int) float64 {
	return f.stall.Seconds()/f.interval.Seconds() + f.interval.Seconds()/2/f.between(n).Seconds()
}

// hangs is the fraction of time in which all processes wait for a dead one.
func (f failures) hangs(n int) float64 { return f.hang.Seconds() / f.between(n).Seconds() }

// best is the interval with the lowest total cost of checkpoints (Young's formula).
func (f failures) best(n int) time.Duration {
	return time.Duration(math.Sqrt(2*f.stall.Seconds()*f.between(n).Seconds()) * float64(time.Second))
}
