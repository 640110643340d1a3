package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUnit: systemd takes the unit, and says that little is exposed; with what a GPU needs, too.
func TestUnit(t *testing.T) {
	unit, err := os.ReadFile("systemd/promwarp.service")
	require.NoError(t, err)
	dropIn, err := os.ReadFile("systemd/promwarp-gpu.conf")
	require.NoError(t, err)
	for name, most := range map[string]string{"cores": "12", "GPU": "25"} {
		t.Run(name, func(t *testing.T) {
			// Of a program that is there.
			text := strings.ReplaceAll(string(unit), "/usr/bin/promwarp", "/bin/true")
			if name == "GPU" {
				text += "\n" + string(dropIn)
			}
			file := filepath.Join(t.TempDir(), "promwarp.service")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			for _, args := range [][]string{
				{"verify", "--man=no", "--recursive-errors=no", file},
				{"security", "--no-pager", "--offline=true", "--threshold=" + most, file},
			} {
				out, err := exec.Command("systemd-analyze", args...).CombinedOutput()
				require.NoError(t, err, "%s", out)
				if args[0] == "verify" {
					require.Empty(t, string(out))
				}
			}
		})
	}
}
