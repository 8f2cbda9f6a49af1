// Package dist joins the processes of one training run, in pure Go: a [Group] sums, gathers and
// broadcasts small messages among them over TCP, and tells them all when one has failed. Package
// dist/ddp trains with it; packages accelerate and trainer/engine take it as an option.
//
//	g, err := dist.Init(ctx, dist.Options{}) // reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun sets them
//	defer g.Close()
//	loss := []float64{mine}
//	err = dist.AllReduce(ctx, g, loss, dist.Mean)
//
// A program is started once per process by torchrun, srun, mpirun, Kubeflow or `gotrainer launch`,
// which [ReadLauncher] recognises; without any of them it is a group of one, and every call returns
// at once.
//
// For tests, package dist/local runs the processes as goroutines of one process. [Options].Fake
// makes one process of many without the others.
//
// # Calls
//
// All processes make the same calls in the same order. A call carries its name, its number and the
// process's contribution up to rank 0; the answer comes down when all have made it. When the calls
// of the processes differ, they all end with [ErrMismatch], which says who called what, instead of
// computing something wrong. The calls are for small messages: the numbers of an update, the
// metrics of an evaluation, the names of the operations that libtorch's engine does next. Tensors
// go through package dist/ddp.
//
// A sum is taken element by element in the order of the ranks, ((r0 + r1) + r2) + ..., by rank 0, so
// it has the same bits on all processes and in every run.
//
// # Connections
//
// Connections form a tree: the first process of each machine is connected to rank 0, and the other
// processes of the machine to that one. With 1,024 processes on 128 machines, rank 0 has 134
// connections and most processes have one. Machines are told apart by their host names.
//
// # When a process dies
//
// Its neighbours in the tree notice within moments and tell all the others. Whatever call a process
// is in then returns an [*Error] with the rank that is gone and the call in which it was last heard
// from. A machine that vanishes from the network is noticed after [Options].PeerTimeout. A process
// that hangs is noticed after [Options].Timeout, and named by rank 0, which knows who has not made
// the call.
//
// A group that has failed does not recover: its calls return the first error, and the other
// processes receive the reason before the connections close. The launcher then restarts the program
// from the last checkpoint.
package dist
