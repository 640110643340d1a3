package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/promwarp/promwarp/e2e/programs"
)

// The programs under test, built by TestMain.
var prometheusBin, promwarpBin string

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.list"); f != nil && f.Value.String() != "" {
		os.Exit(m.Run())
	}
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if prometheusBin = os.Getenv("E2E_PROMETHEUS"); prometheusBin == "" {
		if prometheusBin, err = buildFromPrometheus("prometheus"); err != nil {
			return 1, fmt.Errorf("build Prometheus: %w", err)
		}
	}
	if promwarpBin = os.Getenv("E2E_PROMWARP"); promwarpBin == "" {
		dir, err := os.MkdirTemp("", "promwarp-e2e-")
		if err != nil {
			return 1, err
		}
		defer os.RemoveAll(dir)
		promwarpBin = filepath.Join(dir, "promwarp")
		if err := goBuild("..", "-o", promwarpBin, "./cmd/promwarp"); err != nil {
			return 1, fmt.Errorf("build promwarp: %w", err)
		}
	}
	defer stopFixture()
	return m.Run(), nil
}

// buildFromPrometheus returns the path of one of Prometheus's programs, of the version in
// go.mod. It builds it if need be.
func buildFromPrometheus(program string) (string, error) { return programs.FromPrometheus(program) }

// keep returns the path of a program of that name in the folder where those are kept
// that take long to build. It is built if it is not there.
func keep(name string, build func(path string) error) (string, error) {
	return programs.Keep(name, build)
}

func goBuild(dir string, args ...string) error { return programs.Build(dir, args...) }
