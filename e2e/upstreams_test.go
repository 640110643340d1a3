package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine/compare"
)

// Of two Prometheus that share a block promwarp makes the answers that a
// Prometheus makes which reads from both, and without one of them that of the
// other, with a warning.
func TestSeveralUpstreams(t *testing.T) {
	g := smallGrid(6)
	whole := smallData(t, g.end, 6)
	blocks, err := filepath.Glob(filepath.Join(whole, "01*"))
	require.NoError(t, err)
	slices.Sort(blocks)
	require.GreaterOrEqual(t, len(blocks), 3)
	part := func(blocks []string) string {
		dir := t.TempDir()
		for _, b := range blocks {
			require.NoError(t, os.CopyFS(filepath.Join(dir, filepath.Base(b)), os.DirFS(b)))
		}
		return dir
	}
	old := prometheus(t, mustFreeAddr(t), part(blocks[:2]), "")
	recent := prometheus(t, mustFreeAddr(t), part(blocks[1:]), "")
	entries := func(onFailure string) string {
		return fmt.Sprintf("remote_read:\n- {name: old, url: %s/api/v1/read, read_recent: true}\n- {name: recent, url: %s/api/v1/read, read_recent: true%s}\n", old.url, recent.url, onFailure)
	}
	both := prometheus(t, mustFreeAddr(t), t.TempDir(), entries(""))
	addr := mustFreeAddr(t)
	pw := runServer(t, "promwarp", addr, promwarpBin, "serve", "--web.listen-address="+addr, "--config.file="+writeConfig(t, entries(", on_failure: warn")))
	all := prometheus(t, mustFreeAddr(t), whole, "")
	chained := prometheus(t, mustFreeAddr(t), t.TempDir(), fmt.Sprintf("remote_read:\n- url: %s/api/v1/read\n  read_recent: true\n", pw.url))

	queries := []string{dashboard[0], dashboard[3], dashboard[4], dashboard[5], dashboard[8], dashboard[14], dashboard[16], dashboard[17]}
	for _, q := range queries {
		t.Run(q, func(t *testing.T) {
			form := g.rangeForm(q)
			want := ask(t, both.url, rangePath, form)
			require.Equal(t, http.StatusOK, want.code, "%s", want.body)
			require.NotContains(t, string(want.body), `"result":[]`)
			requireSame(t, ask(t, all.url, rangePath, form), want, false, "Prometheus of the parts is Prometheus of the whole")
			requireSame(t, want, ask(t, pw.url, rangePath, form), false, "first")
			requireSame(t, want, ask(t, pw.url, rangePath, form), false, "repeated")
			requireSame(t, want, ask(t, chained.url, rangePath, form), false, "by remote read")
		})
	}
	for _, path := range []string{"/api/v1/labels", "/api/v1/series"} {
		form := url.Values{"match[]": {"up"}}
		require.JSONEq(t, string(ask(t, all.url, path, form).body), string(ask(t, pw.url, path, form).body), path)
	}

	// What is kept of it needs it no more; anything else is partial, and said so.
	recent.kill()
	form := g.rangeForm(queries[0])
	requireSame(t, ask(t, all.url, rangePath, form), ask(t, pw.url, rangePath, form), false, "kept")
	form = g.rangeForm(`sum by (type) (node_memory_bytes{job!=""})`)
	a := ask(t, pw.url, rangePath, form)
	require.Equal(t, http.StatusOK, a.code, "%s", a.body)
	r, err := compare.Parse(a.code, a.body)
	require.NoError(t, err)
	require.Len(t, r.Warnings, 1)
	require.Contains(t, r.Warnings[0], "partial answer, without anything of the upstream recent: cannot reach "+recent.url)
	a = ask(t, old.url, rangePath, form)
	want, err := compare.Parse(a.code, a.body)
	require.NoError(t, err)
	want.Warnings = r.Warnings
	require.NoError(t, sameAnswer(want, r, true))
}
