package metrics

// Stem is stem.
var Stem = stem
