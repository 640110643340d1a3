package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
)

// leavesNothing checks at the end of the test that no goroutine and no
// temporary file is left.
func leavesNothing(t *testing.T) {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ignore := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		goleak.VerifyNone(t, ignore)
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left, "temporary files")
	})
}

func TestDemoOnce(t *testing.T) {
	leavesNothing(t)
	var stdout, stderr testfiles.Log
	data := filepath.Join(t.TempDir(), "data")
	o := demoOptions{once: true, series: 300, hours: 3, listen: "127.0.0.1:0", data: data}
	require.NoError(t, runDemo(t.Context(), o, &stdout, &stderr), stdout.String())
	require.Equal(t, len(demoQueries), strings.Count(stdout.String(), "  same  "), stdout.String())
	require.NotContains(t, stdout.String(), "DIFFERENT")
	require.Contains(t, stderr.String(), "generated 2")
	t.Logf("\n%s", stdout.String())

	// The data is kept and used again.
	stdout, stderr = testfiles.Log{}, testfiles.Log{}
	require.NoError(t, runDemo(t.Context(), o, &stdout, &stderr), stdout.String())
	require.Equal(t, len(demoQueries), strings.Count(stdout.String(), "  same  "), stdout.String())
	require.NotContains(t, stderr.String(), "generated")
}

func TestDemoServes(t *testing.T) {
	leavesNothing(t)
	var stdout, stderr testfiles.Log
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- runDemo(ctx, demoOptions{series: 68, hours: 1, listen: "127.0.0.1:0"}, &stdout, &stderr)
	}()
	url := regexp.MustCompile(`source with the URL (http://\S+)`)
	require.Eventually(t, func() bool { return url.MatchString(stdout.String()) }, time.Minute, 20*time.Millisecond)
	base := url.FindStringSubmatch(stdout.String())[1]
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path string) string {
		resp, err := client.Get(base + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
		return string(body)
	}
	// Samples newer than the blocks arrive.
	require.Eventually(t, func() bool {
		return strings.Contains(get("/api/v1/query?query=count(time()-timestamp(app_build_info)<40)"), `"1"`)
	}, 30*time.Second, 200*time.Millisecond)
	// What remote read does not tell comes from the demo's Prometheus.
	require.Contains(t, get("/api/v1/label/__name__/values"), "node_memory_bytes")
	require.Contains(t, get("/api/v1/metadata"), "success")
	require.Contains(t, get("/api/v1/rules"), "success")
	cancel()
	require.NoError(t, <-done)
}

func TestDemoErrors(t *testing.T) {
	leavesNothing(t)
	run := func(ctx context.Context, o demoOptions) error {
		return runDemo(ctx, o, io.Discard, io.Discard)
	}
	var usage config.UsageError
	require.ErrorAs(t, run(t.Context(), demoOptions{hours: 1}), &usage)
	require.ErrorAs(t, run(t.Context(), demoOptions{series: 1}), &usage)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	err = run(t.Context(), demoOptions{series: 1, hours: 1, listen: l.Addr().String()})
	require.ErrorContains(t, err, "in use")

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "letter"), nil, 0o600))
	err = run(t.Context(), demoOptions{series: 1, hours: 1, listen: "127.0.0.1:0", data: dir})
	require.ErrorAs(t, err, &usage)
	require.ErrorContains(t, err, "not empty")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, run(ctx, demoOptions{series: 1, hours: 1, listen: "127.0.0.1:0"}), "interrupted")
}
