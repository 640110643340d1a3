package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BuildDir is where programs that take long to build are kept, as seen from e2e/.
const BuildDir = "../.build"

// FromPrometheus returns the path of one of Prometheus's programs, of the version in go.mod,
// without service discoveries and web pages. It builds it if need be, and says its version as a
// released one does. The working directory must be e2e/.
func FromPrometheus(program string) (string, error) {
	const module = "github.com/prometheus/prometheus"
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "VERSION"))
	if err != nil {
		return "", err
	}
	version := strings.TrimSpace(string(text))
	return Keep(program+"-"+version, func(path string) error {
		return Build(".", "-tags", "remove_all_sd", "-ldflags", "-X github.com/prometheus/common/version.Version="+version, "-o", path, module+"/cmd/"+program)
	})
}

// Keep returns the path of a program of that name in the folder where those are kept that take
// long to build. It is built if it is not there.
func Keep(name string, build func(path string) error) (string, error) {
	dir, err := filepath.Abs(BuildDir)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "e2e: building %s, once; this takes some minutes\n", name)
	// Renamed into place, so that what is there is complete.
	part := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(part)
	if err := build(part); err != nil {
		return "", err
	}
	return path, os.Rename(part, path)
}

// Build runs go build with args in dir.
func Build(dir string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}
