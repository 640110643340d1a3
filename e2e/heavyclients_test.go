//go:build clients

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// thanosVersion is the version of Thanos's Go module that is tested with.
const thanosVersion = "v0.42.4"

// buildThanos returns the path of Thanos. It is built if need be, in its module's own
// folder, as its go.mod replaces some of its dependencies.
func buildThanos() (string, error) {
	const module = "github.com/thanos-io/thanos@" + thanosVersion
	return keep("thanos-"+thanosVersion, func(path string) error {
		cmd := exec.Command("go", "mod", "download", "-json", module)
		cmd.Dir = os.TempDir()
		out, err := cmd.Output()
		var downloaded struct{ Dir, Error string }
		if err := errors.Join(err, json.Unmarshal(out, &downloaded)); err != nil {
			return fmt.Errorf("go mod download %s: %w %s", module, err, downloaded.Error)
		}
		return goBuild(downloaded.Dir, "-mod=readonly", "-trimpath", "-tags", "slicelabels", "-o", path, "./cmd/thanos")
	})
}

// buildVictoriaMetrics returns the paths of VictoriaMetrics and of its vmctl, built
// if need be. They are of the version that the benchmark measures.
func buildVictoriaMetrics() (server, vmctl string, err error) {
	const module = "github.com/VictoriaMetrics/VictoriaMetrics"
	build := func(name, dir, app string) (string, error) {
		cmd := exec.Command("go", "list", "-m", "-f", "{{.Version}}", module)
		cmd.Dir = dir
		version, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("which version of %s to build: %w", name, err)
		}
		return keep(name+"-"+strings.TrimSpace(string(version)), func(path string) error {
			return goBuild(dir, "-trimpath", "-o", path, module+"/app/"+app)
		})
	}
	server, err = build("victoria-metrics", "../bench/victoriametrics", "victoria-metrics")
	if err != nil {
		return "", "", err
	}
	vmctl, err = build("vmctl", "vmctl", "vmctl")
	return server, vmctl, err
}
