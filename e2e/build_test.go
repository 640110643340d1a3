package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The programs under test, built by TestMain.
var prometheusBin, promwarpBin string

// buildDir is where programs that take long to build are kept.
const buildDir = "../.build"

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
		if prometheusBin, err = buildPrometheus(); err != nil {
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

// buildPrometheus returns the path of Prometheus, of the version in go.mod,
// without service discoveries and web pages. It builds it if need be.
func buildPrometheus() (string, error) {
	const module = "github.com/prometheus/prometheus"
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	dir, err := filepath.Abs(buildDir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "prometheus-"+strings.TrimSpace(string(out)))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fmt.Fprintln(os.Stderr, "e2e: building Prometheus, once; this takes some minutes")
	// Renamed into place, so that what is there is complete.
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(part)
	if err := goBuild(".", "-trimpath", "-tags", "remove_all_sd", "-o", part, module+"/cmd/prometheus"); err != nil {
		return "", err
	}
	return path, os.Rename(part, path)
}

func goBuild(dir string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}
