package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAttackShort: what make attack does for minutes, for some seconds. How long things take says
// nothing on a machine that does other work: only crashes, panics and memory that cannot be read count,
// and with E2E_BARS what make attack holds.
func TestAttackShort(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "attack")
	require.NoError(t, goBuild(".", "-o", bin, "./attack"))
	attack := exec.CommandContext(t.Context(), bin, "-bars="+strconv.FormatBool(os.Getenv("E2E_BARS") != ""), "-patience", "6",
		"-promwarp-bin", promwarpBin, "-prometheus-bin", prometheusBin, "-series", "680", "-for", "6s", "-crowd", "1s")
	out, err := attack.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "aborted requests: ")
	t.Logf("%s", out)
}
