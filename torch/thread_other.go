//go:build !linux

package torch

func onBriefThread(f func()) { f() }
