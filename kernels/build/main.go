// Command build makes what is generated from the kernels' sources:
//
//	go run ./kernels/build            everything that is not made of its source; PTX needs clang-19
//	go run ./kernels/build -noptx     what needs no compiler
//
//	definitions of functions ─────────┬──► kernels/abi/functions.go     their numbers
//	(cpuexec/window, aggregate,       ├──► kernels/abi/functions.h      the same
//	vector; resample/aggregate)       ├──► kernels/abi/aggregates.h     the same of resample requests
//	                                  └──► kernels/window/statistics.h  policies of window_statistic
//
//	kernels/ROOM/NAME.cu ──► parse ──┬──► kernels/host/table.h          the kernels of the host driver
//	                                 └──► compile ──► kernels/ptx/NAME.ptx
//
// A room is a folder of kernels. The first line of each PTX file names the compiler and a hash
// of what the file was made from, so that a stale one is noticed where there is no compiler.
// Start reading at makeAll.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/promwarp/promwarp/kernels/abi"
)

func main() {
	noPTX := flag.Bool("noptx", false, "make only what needs no compiler")
	flag.Parse()
	if err := makeAll(".", !*noPTX); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

// makeAll writes all that is generated below root, the repository's. What needs the compiler
// comes last: kernels whose sources, or whose compiler, are not those that their PTX names.
func makeAll(root string, ptx bool) error {
	functions, err := functionTexts(root)
	if err != nil {
		return err
	}
	if err := write(root, functions); err != nil {
		return err
	}
	all, err := parseAll(root)
	if err != nil {
		return err
	}
	if err := write(root, map[string][]byte{table: hostTable(all)}); err != nil || !ptx {
		return err
	}
	version, err := compilerVersion()
	if err != nil {
		return err
	}
	for _, k := range all {
		if k.isFresh(root, version) {
			continue
		}
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

// write writes files, by their paths below the root.
func write(root string, texts map[string][]byte) error {
	for path, text := range texts {
		if err := os.WriteFile(filepath.Join(root, path), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// table is the path of what hostTable makes.
const table = "kernels/host/table.h"

// functionTexts returns what is generated from the definitions of functions.
func functionTexts(root string) (map[string][]byte, error) {
	list, err := statistics(root)
	queries := slices.DeleteFunc(slices.Clone(abi.Numbered), func(k abi.Kernel) bool { return k == abi.ByState })
	return map[string][]byte{
		"kernels/abi/functions.go":    goNumbers(),
		"kernels/abi/functions.h":     cNumbers(queries...),
		"kernels/abi/aggregates.h":    cNumbers(abi.ByState),
		"kernels/window/statistics.h": list,
	}, err
}
