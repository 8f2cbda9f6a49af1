package deberta

// Buckets exports buckets.
var Buckets = buckets
