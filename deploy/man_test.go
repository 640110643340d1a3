package deploy

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestManPage: groff sets the manual's page without a warning.
func TestManPage(t *testing.T) {
	const page = "man/promwarp.1"
	warnings, err := exec.Command("groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-z", page).CombinedOutput()
	require.NoError(t, err, "%s", warnings)
	require.Empty(t, string(warnings))
	text, err := exec.Command("groff", "-man", "-Kutf8", "-Tutf8", "-P-cbou", page).Output()
	require.NoError(t, err)
	for _, want := range []string{"\n   promwarp check config <file>\n", "\n       --query.timeout=2m\n", "  promwarp query 'sum by (job) (rate(http_requests_total[5m]))'\n"} {
		require.Contains(t, string(text), want)
	}
}
