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

// compile returns the PTX of a kernel, stamp included.
func (k *kernel) compile(version string) ([]byte, error) {
	sum, err := k.hash()
	if err != nil {
		return nil, err
	}
	var out, said bytes.Buffer
	cmd := exec.Command(compiler, append(flags, k.source)...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", k.source, err, said.Bytes())
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

// hash covers the source, all that it includes, and the flags.
func (k *kernel) hash() (string, error) {
	h := sha256.New()
	for _, f := range k.files {
		b, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", filepath.Base(f), len(b), b)
	}
	fmt.Fprint(h, flags)
	return fmt.Sprintf("%x", h.Sum(nil)[:12]), nil
}

// isFresh reports whether the kernel's PTX says that it was made of this source by this compiler.
func (k *kernel) isFresh(root, version string) bool {
	sum, err := k.hash()
	if err != nil {
		return false
	}
	have, err := os.ReadFile(filepath.Join(root, k.ptx()))
	return err == nil && bytes.HasPrefix(have, []byte(stamp(sum, version)))
}

func stamp(sum, version string) string { return fmt.Sprintf("// Built from %s by %s\n", sum, version) }
