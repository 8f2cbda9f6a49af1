package deberta

// Buckets are the classes of distances.
var Buckets = buckets
