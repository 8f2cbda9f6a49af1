package sharded

// SyncParent is the function with which [Publish] flushes the name of a checkpoint to the disk.
var SyncParent = &syncParent
