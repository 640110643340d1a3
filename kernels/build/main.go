// Command build makes what is generated from the kernels' sources:
//
//	go run ./kernels/build
//
//	kernels/ROOM/NAME.cu ──► parse ──┬──► gpuexec/launch/kernels.go   a typed launch a kernel
//	                                 ├──► kernels/host/table.h        the kernels of the host driver
//	                                 └──► compile ──► kernels/ptx/NAME.ptx
//
// A room is a folder of kernels. The first line of each PTX file names the compiler and a hash
// of what the file was made from, so that a stale one is noticed where there is no compiler.
// Start reading at makeAll.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := makeAll("."); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

// makeAll writes all that is generated below root, the repository's. What needs the compiler
// comes last.
func makeAll(root string) error {
	all, err := parseAll(root)
	if err != nil {
		return err
	}
	for path, text := range texts(all) {
		if err := os.WriteFile(filepath.Join(root, path), text, 0o644); err != nil {
			return err
		}
	}
	version, err := compilerVersion()
	if err != nil {
		return err
	}
	for _, k := range all {
		ptx, err := k.compile(version)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, k.ptx()), ptx, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// texts returns what is generated without a compiler, by its path below the root.
func texts(all []*kernel) map[string][]byte {
	return map[string][]byte{
		"gpuexec/launch/kernels.go": launches(all),
		"kernels/host/table.h":      hostTable(all),
	}
}
