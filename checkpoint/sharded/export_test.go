package sharded

// SyncParent is what [Publish] forces the name of a checkpoint to the disk with.
var SyncParent = &syncParent
