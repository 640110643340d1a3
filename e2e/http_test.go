package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever is sent, promwarp answers as a Prometheus of the same data, but for what the
// table gives a reason for: in front of that Prometheus, and from a data directory.
func TestHTTP(t *testing.T) {
	g := smallGrid(6)
	dir := smallData(t, g.end, 6)
	up := prometheus(t, mustFreeAddr(t), dir, "")
	links := t.TempDir()
	require.NoError(t, linkBlocks(dir, links))
	addr := mustFreeAddr(t)
	fromFiles := runServer(t, "promwarp", addr, promwarpBin, "serve", "--web.listen-address="+addr, "--tsdb.path="+links)
	for name, c := range map[string]struct {
		promwarp *process
		differs  map[string]differences
	}{
		"upstream":       {promwarp(t, up.url), nil},
		"data directory": {fromFiles, dataDirectoryDiffers},
	} {
		t.Run(name, func(t *testing.T) {
			r := strings.NewReplacer("{start}", seconds(g.start), "{end}", seconds(g.end))
			for i, e := range httpTable {
				if d, ok := c.differs[e.request]; ok {
					e.differs = d
				}
				e.request = r.Replace(e.request)
				line, _, _ := strings.Cut(e.request, "\n")
				t.Run(fmt.Sprintf("%d %s", i, line), func(t *testing.T) { e.check(t, up.url, c.promwarp.url) })
			}
		})
	}
	require.GreaterOrEqual(t, len(httpTable), 150)
}
