// Package dist joins the processes of one training run: a [Group] sums, gathers and broadcasts
// numbers among them over TCP, in pure Go. Package dist/ddp trains with it, packages accelerate and
// trainer/engine take it as an option.
//
//	g, err := dist.Init(ctx, dist.Options{}) // reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun sets them
//	defer g.Close()
//	loss := []float64{mine}
//	err = dist.AllReduce(ctx, g, loss, dist.Mean)
//
// A program is started once per process by torchrun, srun, mpirun, Kubeflow or `gotrainer launch`,
// which [ReadLauncher] recognises; without any of them it is alone, and every call returns at once.
//
// # Calls
//
// All processes make the same calls in the same order. Every message carries the number of its call
// and what it is about: processes that have come apart end with [ErrMismatch], which says who
// called what, and compute nothing wrong.
//
// # Sums
//
// A sum is taken element by element in the order of the ranks, ((r0 + r1) + r2) + ..., by one
// process, which sends it to the others. So it has the same bits on all of them, in every run, and
// however a tensor is cut into buckets. Of two processes there is but one order, hence the bits are
// those of gloo (torch.distributed on the CPU). float16 and bfloat16 are rounded after each
// addition, as there.
//
// Short messages go from each to each at once. Of a long one each process sums an equal part: a
// process sends and receives 2(n-1)/n of it, the least there can be.
//
// # When a process dies
//
// Every pair of processes has a connection, so the end of one is noticed by all within moments, in
// whatever call they are: the call returns an [*Error] with the rank that is gone and the call in
// which it was last heard. A machine that vanishes from the network is noticed after
// [Options].PeerTimeout, a process that hangs after [Options].Timeout. A group that has failed
// stays so: its calls return the first error, and the others receive the reason before the
// connections close. What comes next is the launcher's: start again from the last checkpoint.
package dist
