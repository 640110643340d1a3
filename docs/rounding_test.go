package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fused is an instruction of arm64 that multiplies and adds with one rounding, in what the
// compiler prints, and the file and line that the instruction comes from.
var fused = regexp.MustCompile(`\((\S+\.go):(\d+)\)\s+(FN?M(?:ADD|SUB)[SD])\s`)

// exported matches how a compiled package begins: the size of its exports, a line about the compiler, the exports.
var exported = regexp.MustCompile("^!<arch>\n__.PKGDEF.{39}(.{10})`\n(go object .*\n)")

// TestRounding holds the executors' packages against exactness.md: a product that is added to
// something is rounded first, by an explicit conversion. Go rounds it so on amd64 in any case, and
// on arm64 only with the conversion. A call of math.FMA is meant.
//
// These packages alone are compiled for arm64. They import what this machine has compiled, under the line
// that the compiler expects of arm64: to compile Prometheus and the standard library again takes minutes.
func TestRounding(t *testing.T) {
	rooms, dir := []string{"-deps", "./cpuexec/...", "./resample/..."}, t.TempDir()
	arm64 := append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	config := ""
	compile := func(r room) string {
		out := filepath.Join(dir, strconv.Itoa(len(config)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "importcfg"), []byte(config), 0o644))
		cmd := exec.Command("go", append([]string{"tool", "compile", "-S", "-pack", "-importcfg", filepath.Join(dir, "importcfg"), "-p", r.ImportPath, "-o", out}, r.GoFiles...)...)
		cmd.Dir, cmd.Env = r.Dir, arm64
		printed, err := cmd.CombinedOutput()
		require.NoError(t, err, string(printed[max(0, len(printed)-1000):]))
		config += "packagefile " + r.ImportPath + "=" + out + "\n"
		return string(printed)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "empty.go"), []byte("package empty"), 0o644))
	compile(room{ImportPath: "empty", Dir: dir, GoFiles: []string{"empty.go"}})
	line := exported.FindStringSubmatch(read(t, dir, "0"))[2]
	for _, r := range roomsOf(t, os.Environ(), append([]string{"-export"}, rooms...)...) {
		if r.Export == "" { // unsafe
			continue
		}
		all := read(t, "", r.Export)
		at := exported.FindStringSubmatchIndex(all)
		size, err := strconv.Atoi(strings.TrimSpace(all[at[2]:at[3]]))
		require.NoError(t, err)
		exports := line + all[at[5]:at[4]+size]
		out := filepath.Join(dir, strconv.Itoa(len(config)))
		require.NoError(t, os.WriteFile(out, fmt.Appendf(nil, "%s%-10d`\n%s", all[:at[2]], len(exports), exports), 0o644))
		config += "packagefile " + r.ImportPath + "=" + out + "\n"
	}
	printed := ""
	for _, r := range roomsOf(t, arm64, rooms...) {
		if !r.DepOnly {
			printed += compile(r)
		}
	}
	meant := 0
	for _, found := range fused.FindAllStringSubmatch(printed, -1) {
		line := sourceLine(t, found[1], found[2])
		if strings.Contains(line, "math.FMA(") {
			meant++
			continue
		}
		t.Errorf("%s:%s is %s on arm64: write float64(x*y) + z\n%s", found[1], found[2], found[3], line)
	}
	require.NotZero(t, meant, "the compiler's output shows no call of math.FMA: the test would find nothing")
}

// sourceLine is a line of a file, from 1 on.
func sourceLine(t *testing.T, file, number string) string {
	n, err := strconv.Atoi(number)
	require.NoError(t, err)
	return strings.Split(read(t, "", file), "\n")[n-1]
}
