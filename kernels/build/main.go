// Command build compiles the kernels in the folder above it, and in historic beside
// it, to PTX:
//
//	go run ./kernels/build
//
// The first line of each PTX file names the compiler and a hash of what the file
// was made from, so that a stale one is noticed where there is no compiler.
package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const compiler = "clang-19"

// Contracting a*b+c into one rounding would change answers.
var flags = []string{
	"-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_75", "--cuda-feature=+ptx63",
	"-nocudainc", "-nocudalib", "-std=c++17", "-O3", "-ffp-contract=off",
	"-Wall", "-Wextra", "-Werror", "-S", "-o", "-",
}

// folders are those with kernels, relative to the repository's root.
var folders = []string{"kernels", "kernels/historic"}

func main() {
	if err := buildAll(folders); err != nil {
		fmt.Fprintln(os.Stderr, "kernels:", err)
		os.Exit(1)
	}
}

func buildAll(dirs []string) error {
	version, err := compilerVersion()
	if err != nil {
		return err
	}
	var sources []string
	for _, dir := range dirs {
		in, err := filepath.Glob(filepath.Join(dir, "*.cu"))
		if err != nil || len(in) == 0 {
			return fmt.Errorf("no kernels in %s: run this in the repository's root (%v)", dir, err)
		}
		sources = append(sources, in...)
	}
	for _, src := range sources {
		ptx, err := compile(src, version)
		if err != nil {
			return err
		}
		if err := os.WriteFile(target(src), ptx, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func target(source string) string { return strings.TrimSuffix(source, ".cu") + ".ptx" }

// compile returns the PTX of one source file, stamp included.
func compile(source, version string) ([]byte, error) {
	sum, err := hash(source)
	if err != nil {
		return nil, err
	}
	var out, said bytes.Buffer
	cmd := exec.Command(compiler, append(flags, source)...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", source, err, said.Bytes())
	}
	return append([]byte(stamp(sum, version)), out.Bytes()...), nil
}

// compilerVersion is the first line of what the compiler says of itself.
func compilerVersion() (string, error) {
	out, err := exec.Command(compiler, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("the kernels need %s, which Debian has as the package of that name: %w", compiler, err)
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first, nil
}

// hash covers the source, all headers beside it or the shim above it, and the flags.
func hash(source string) (string, error) {
	dir := filepath.Dir(source)
	files, err := filepath.Glob(filepath.Join(dir, "*.h"))
	if err != nil {
		return "", err
	}
	if shim := filepath.Join(dir, "..", "shim.h"); exists(shim) {
		files = append(files, shim)
	}
	h := sha256.New()
	for _, f := range append(files, source) {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", filepath.Base(f), len(b), b)
	}
	fmt.Fprint(h, flags)
	return fmt.Sprintf("%x", h.Sum(nil)[:12]), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func stamp(sum, version string) string { return fmt.Sprintf("// Built from %s by %s\n", sum, version) }
