package docs

import (
	"os"
	"os/exec"
	"path"
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

// TestRounding holds the executors' packages against exactness.md: a product that is added to
// something is rounded first, by an explicit conversion. Go rounds it so on amd64 in any case, and
// on arm64 only with the conversion. A call of math.FMA is meant.
func TestRounding(t *testing.T) {
	cmd := exec.Command("go", "build", "-gcflags=-S", "./cpuexec/...", "./resample/...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	printed, err := cmd.CombinedOutput()
	require.NoError(t, err, string(printed[max(0, len(printed)-1000):]))
	meant := 0
	for _, found := range fused.FindAllStringSubmatch(string(printed), -1) {
		line := sourceLine(t, found[1], found[2])
		if strings.Contains(line, "math.FMA(") {
			meant++
			continue
		}
		t.Errorf("%s:%s is %s on arm64: write float64(x*y) + z\n%s", found[1], found[2], found[3], line)
	}
	require.NotZero(t, meant, "the compiler's output shows no call of math.FMA: the test would find nothing")
}

// fusedInAssembly is such an instruction, of one value or of several, in what the disassembler prints.
var fusedInAssembly = regexp.MustCompile(`(?m)^\s+(\S+_arm64\.s:\d+)\s.*// (fn?m(?:add|sub)|fml[as]) `)

// TestRoundingInAssembly holds what is written in assembly for arm64 against the same, as a program
// has it that calls all of it: the test of the executor.
func TestRoundingInAssembly(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", "test", "-c", "-o", program, "./cpuexec")
	build.Dir = root
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	printed, err := build.CombinedOutput()
	require.NoError(t, err, string(printed))
	printed, err = exec.Command("go", "tool", "objdump", "-gnu", "-s", `promwarp/(cpuexec/neon|internal/spin)\.`, program).CombinedOutput()
	require.NoError(t, err, string(printed))
	text, functions := string(printed), 0
	walk(t, func(file string) {
		if !strings.HasSuffix(file, "_arm64.s") {
			return
		}
		source, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		for _, name := range regexp.MustCompile(`(?m)^TEXT ·(\w+)`).FindAllStringSubmatch(string(source), -1) {
			require.True(t, strings.Contains(text, module+path.Dir(file)+"."+name[1]+".abi0(SB)"), "%s of %s is not in the program", name[1], file)
			functions++
		}
	})
	require.Greater(t, functions, 10)
	require.True(t, strings.Contains(text, "// fmul v"), "the disassembler shows no product: the test would find nothing")
	for _, found := range fusedInAssembly.FindAllStringSubmatch(text, -1) {
		t.Errorf("%s is %s: multiply and add in two instructions", found[1], found[2])
	}
}

// sourceLine is a line of a file, from 1 on.
func sourceLine(t *testing.T, file, number string) string {
	if !filepath.IsAbs(file) {
		file = filepath.Join(root, file)
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	n, err := strconv.Atoi(number)
	require.NoError(t, err)
	return strings.Split(string(text), "\n")[n-1]
}
