package ucd

import "testing"

func BenchmarkBuild(b *testing.B) {
	for b.Loop() {
		build(decode(propertyData))
	}
}

func BenchmarkMaps(b *testing.B) {
	for b.Loop() {
		maps(compatible)
	}
}
