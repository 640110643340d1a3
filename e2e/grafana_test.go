package e2e

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// grafanaDiffers are those of Grafana's requests that promwarp answers differently.
var grafanaDiffers = map[string]differences{
	"which server it is":         {"body": ownAnswer},
	"version detection":          {"body": ownAnswer},
	"a link to the series' page": {"Location": ownPage, "body": ownPage},
}

// What Grafana sends gets from promwarp what it gets from the Prometheus behind it.
func TestGrafana(t *testing.T) {
	t.Parallel()
	b := busy(t)
	time.Sleep(3 * time.Second) // for {recent} to have samples
	now := time.Now()
	r := strings.NewReplacer(
		"{start}", seconds(b.grid.start), "{end}", seconds(b.grid.end), "{nearend}", seconds(b.grid.end.Add(-time.Minute)),
		"{now}", seconds(now), "{recent}", seconds(now.Add(-2*time.Second)))
	file, err := os.ReadFile("testdata/grafana.txt")
	require.NoError(t, err)
	_, requests, _ := strings.Cut(string(file), "\n===")
	n := 0
	for part := range strings.SplitSeq(requests, "\n===") {
		name, request, ok := strings.Cut(strings.TrimSpace(part), "\n")
		require.True(t, ok, part)
		n++
		t.Run(name, func(t *testing.T) {
			e := exchange{request: r.Replace(request), differs: grafanaDiffers[name]}
			e.check(t, b.url, b.promwarp.url)
			e.check(t, b.url, b.promwarp.url) // and when it is kept
		})
	}
	require.GreaterOrEqual(t, n, 46)
}
