// Package ptx holds the PTX of all kernels, which `make kernels` builds from their sources.
package ptx

import "embed"

//go:embed *.ptx
var files embed.FS

// Of returns the PTX that has the kernel of that name. It panics if there is none.
func Of(kernel string) []byte {
	b, err := files.ReadFile(kernel + ".ptx")
	if err != nil {
		panic(err)
	}
	return b
}
