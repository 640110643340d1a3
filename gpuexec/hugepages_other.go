//go:build !linux

package gpuexec

func useHugePages([]byte) {}
