package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/e2e/programs"
)

// With an older Prometheus as upstream the answers are still those of the
// Prometheus that promwarp is built with.
func TestOlderUpstream(t *testing.T) {
	bin, err := olderPrometheus()
	if err != nil {
		t.Skipf("no other Prometheus: %v; install one as prometheus on PATH or name one in E2E_UPSTREAM", err)
	}
	up := upstream(t)
	// Links, so that neither server changes the other's directory.
	dir := t.TempDir()
	require.NoError(t, linkBlocks(up.dataDir(), dir))
	addr := mustFreeAddr(t)
	old := runServer(t, "older Prometheus", addr, bin, prometheusArgs(addr, dir, writeConfig(t, ""))...)
	out, err := exec.Command(bin, "--version").CombinedOutput()
	require.NoError(t, err)
	t.Logf("%s", out)

	pw := promwarp(t, old.url)
	for _, q := range []string{dashboard[0], dashboard[2], dashboard[3], dashboard[5], dashboard[8], dashboard[13], dashboard[15], dashboard[18]} {
		t.Run(q, func(t *testing.T) {
			requireAnswers(t, up.grid.rangeForm(q), up.url, pw.url)
		})
	}
	for _, q := range instant {
		form := instantForm(q.query, up.grid.end)
		requireSame(t, ask(t, up.url, queryPath, form), ask(t, pw.url, queryPath, form), q.ordered, q.query)
	}
}

// olderPrometheus finds another Prometheus, or unpacks Debian's package without
// installing it.
func olderPrometheus() (string, error) {
	if bin := os.Getenv("E2E_UPSTREAM"); bin != "" {
		return bin, nil
	}
	if bin, err := exec.LookPath("prometheus"); err == nil {
		return bin, nil
	}
	dir, err := filepath.Abs(filepath.Join(programs.BuildDir, "debian"))
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "unpacked", "usr", "bin", "prometheus")
	if _, err := os.Stat(bin); err == nil {
		return bin, nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", errors.New("apt-get is not there to fetch Debian's")
	}
	if os.Geteuid() != 0 {
		return "", errors.New("only root fetches Debian's")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	const script = `set -e
cd "$1"
rm -rf unpacked part prometheus_*.deb
apt-get download prometheus || { apt-get update; apt-get download prometheus; }
dpkg -x prometheus_*.deb part
mv part unpacked
rm prometheus_*.deb`
	if out, err := exec.Command("sh", "-c", script, "sh", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch Debian's package: %w\n%s", err, out)
	}
	return bin, nil
}

// linkBlocks makes in to the same blocks as in from, sharing their files.
func linkBlocks(from, to string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (rel == "wal" || rel == "chunks_head"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case filepath.Dir(rel) == ".": // the lock and the list of queries
			return nil
		}
		return os.Link(path, filepath.Join(to, rel))
	})
}

// An older Prometheus that reads from promwarp answers what it answers when it reads
// from promwarp's upstream itself.
func TestOlderReader(t *testing.T) {
	bin, err := olderPrometheus()
	if err != nil {
		t.Skipf("no other Prometheus: %v; install one as prometheus on PATH or name one in E2E_UPSTREAM", err)
	}
	g := smallGrid(6)
	up := prometheus(t, mustFreeAddr(t), smallData(t, g.end, 6), "")
	pw := promwarp(t, up.url)
	reading := func(from string) *process {
		addr := mustFreeAddr(t)
		config := writeConfig(t, fmt.Sprintf("remote_read:\n- url: %s/api/v1/read\n  read_recent: true\n", from))
		return runServer(t, "older Prometheus", addr, bin, prometheusArgs(addr, t.TempDir(), config)...)
	}
	direct, through := reading(up.url), reading(pw.url)
	for _, q := range dashboard {
		t.Run(q, func(t *testing.T) {
			form := g.rangeForm(q)
			want := ask(t, direct.url, rangePath, form)
			require.Equal(t, http.StatusOK, want.code, "%s", want.body)
			requireSame(t, want, ask(t, through.url, rangePath, form), false, "first")
			requireSame(t, want, ask(t, through.url, rangePath, form), false, "repeated")
		})
	}
	for _, q := range instant {
		form := instantForm(q.query, g.end)
		requireSame(t, ask(t, direct.url, queryPath, form), ask(t, through.url, queryPath, form), q.ordered, q.query)
	}
}
