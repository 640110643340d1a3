//go:build !amd64

package prefetch

func bytes(*byte, int) {}
