// Package dist joins the processes of one training run, in pure Go: a [Group] sums, gathers and
// broadcasts small messages among them over TCP, and tells all which one has failed. Package dist/ddp
// trains with it, packages accelerate and trainer/engine take it as an option.
//
//	g, err := dist.Init(ctx, dist.Options{}) // reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun sets them
//	defer g.Close()
//	loss := []float64{mine}
//	err = dist.AllReduce(ctx, g, loss, dist.Mean)
//
// A program is started once per process by torchrun, srun, mpirun, Kubeflow or `gotrainer launch`,
// which [ReadLauncher] recognises; without any of them it is alone, and every call returns at once.
//
// Package dist/local runs them as goroutines of one process, for tests, and [Options].Fake is one
// process of many without the others.
//
// # Calls
//
// All processes make the same calls in the same order. A call carries its name, its number and what
// a process has to add to it up to rank 0, and the answer comes down when all have made it. Where
// processes have come apart, all end with [ErrMismatch], which says who called what, and compute
// nothing wrong. The calls are for small messages: the numbers of an update, the metrics of an
// evaluation, the names of what libtorch's engine does next. Tensors go through package dist/ddp.
//
// A sum is taken element by element in the order of the ranks, ((r0 + r1) + r2) + ..., by rank 0, so
// it has the same bits on all processes and in every run.
//
// # Connections
//
// They form a tree: the first process of each machine is connected with rank 0, and the others of
// the machine with it. Of 1,024 processes on 128 machines rank 0 has 134 connections, most have one.
// A machine is told by its host name.
//
// # When a process dies
//
// Its neighbours in the tree notice within moments, and tell all others, in whatever call they are:
// the call returns an [*Error] with the rank that is gone and the call in which it was last heard. A
// machine that vanishes from the network is noticed after [Options].PeerTimeout. A process that
// hangs is noticed after [Options].Timeout, and named by rank 0, which knows who has not made the
// call. A group that has failed stays so: its calls return the first error, and the others receive
// the reason before the connections close. What comes next is the launcher's: start again from the
// last checkpoint.
package dist
