package docs

import (
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
