// Package tcpstore speaks the wire protocol of torch.distributed.TCPStore: a few keys and values by
// which processes that are started together find each other. torchrun's agent runs such a store at
// MASTER_ADDR:MASTER_PORT; [Dial] talks to it, or to the store that [Listen] opens.
//
//	store, err := tcpstore.Dial(ctx, "node0:29500")
//	err = store.Set(ctx, "rank/1", []byte("10.0.0.2:41234"))
//	value, err := store.Get(ctx, "rank/0") // waits until somebody has set it
//
// Keys lie under "/", as those of Python's TCPStore do, so both see the same ones. Integers are
// little-endian, as on the machines that libtorch runs on. Of the protocol it has what a rendezvous
// needs: set, get, add, check, wait and its CANCEL_WAIT, ping.
package tcpstore
