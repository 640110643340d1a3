//go:build !linux

package pinned

func useHugePages([]byte) {}
