package neon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	defined  = regexp.MustCompile(`(?m)^#define (\w+)\(([mnd, ]+)\) WORD .* // (.+)$`)
	anyMacro = regexp.MustCompile(`(?m)^#define`)
	register = regexp.MustCompile(`\b([vsdhxw])([mnd])\b`)
	// printed is the text behind an instruction in what Go's disassembler prints.
	printed = regexp.MustCompile(`(?m) // (.+?)\s*$`)
)

// TestEncodings: each macro of encodings.h is the instruction that is written behind it, with any
// registers. Go's disassembler for arm64 says so, which works on any machine.
func TestEncodings(t *testing.T) {
	header, err := os.ReadFile("encodings.h")
	require.NoError(t, err)
	macros := defined.FindAllStringSubmatch(string(header), -1)
	require.Len(t, macros, len(anyMacro.FindAll(header, -1)), "a macro is not written like the others")
	require.Greater(t, len(macros), 30)
	code := "#include \"textflag.h\"\n#include \"encodings.h\"\nTEXT ·all(SB), NOSPLIT, $0-0\n"
	var want []string
	for _, m := range macros {
		for _, r := range []map[string]int{{"m": 1, "n": 2, "d": 3}, {"m": 30, "n": 21, "d": 10}, {"m": 0, "n": 15, "d": 29}, {"m": 17, "n": 8, "d": 31}} {
			var numbers []string
			for name := range strings.SplitSeq(m[2], ", ") {
				numbers = append(numbers, fmt.Sprint(r[name]))
			}
			code += fmt.Sprintf("\t%s(%s)\n", m[1], strings.Join(numbers, ", "))
			want = append(want, register.ReplaceAllStringFunc(m[3], func(s string) string { return fmt.Sprint(s[:1], r[s[1:]]) }))
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module encodings\n\ngo 1.26\n", "main.go": "package main\n\nfunc all()\n\nfunc main() { all() }\n",
		"all_arm64.s": code + "\tRET\n", "encodings.h": string(header),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	build := exec.Command("go", "build", "-o", "encodings", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	show := exec.Command("go", "tool", "objdump", "-gnu", "-s", `^main\.all`, filepath.Join(dir, "encodings"))
	show.Env = append(os.Environ(), "GOOS=", "GOARCH=") // which are those of another machine when emulated
	out, err = show.CombinedOutput()
	require.NoError(t, err, string(out))
	got := printed.FindAllStringSubmatch(string(out), -1)
	require.Greater(t, len(got), len(want), string(out))
	for i := range want {
		require.Equal(t, want[i], got[i][1])
	}
	require.Equal(t, "ret", got[len(want)][1])
}
