package e2e

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Some of what make attack does, a tenth as often, and all kinds at once for some seconds. With
// E2E_BARS it holds what was seen against make attack's bars, with six times as long.
func TestAttackShort(t *testing.T) {
	if testing.Short() {
		t.Skip("takes most of a minute")
	}
	up := upstream(t)
	help, err := exec.Command(promwarpBin, "serve", "--help").CombinedOutput()
	require.NoError(t, err, "%s", help)
	addr := mustFreeAddr(t)
	args := append(promwarpArgs(addr, up.url), "--config.file="+writeConfig(t, ""), "--gpu=off")
	for flag, value := range map[string]string{
		"--memory.limit": "2GiB", "--web.read-timeout": "3s", "--web.write-timeout": "3s", "--query.timeout": "20s",
	} {
		require.Contains(t, string(help), flag+"=")
		args = append(args, flag+"="+value)
	}
	pw := runServer(t, "promwarp", addr, promwarpBin, args...)

	bin := filepath.Join(t.TempDir(), "attack")
	require.NoError(t, goBuild(".", "-o", bin, "./attack"))
	// How long things take says nothing on a machine that does other work: make attack holds
	// them against the bars, and here only crashes and what is left afterwards count.
	attack := exec.CommandContext(t.Context(), bin, "-bars="+strconv.FormatBool(os.Getenv("E2E_BARS") != ""), "-short", "-target", pw.url, "-prometheus", up.url,
		"-pid", strconv.Itoa(pw.cmd.Process.Pid), "-timeout", "2s", "-patience", "6", "-for", "3s", "-crowd", "0s", "-dashboards", "0s",
		"-only", "deep queries,odd forms,paths,stalled readers,dripping bodies")
	var out bytes.Buffer
	attack.Stdout, attack.Stderr = io.MultiWriter(&out, os.Stderr), os.Stderr
	begun := time.Now()
	err = attack.Run()
	t.Logf("the attack took %s", time.Since(begun).Round(time.Second))
	require.NoError(t, err, "what did not hold:\n%s", broken(out.String()))
	checkMemoryParts(t, pw.url)
	for _, bad := range []string{"panic: ", "fatal error: ", "stack exceeds"} {
		require.NotContains(t, pw.log.String(), bad)
	}
}

// broken are the lines of the attack's output that say what did not hold.
func broken(output string) string {
	var b strings.Builder
	for line := range strings.Lines(output) {
		if strings.Contains(line, "BROKEN") || strings.HasPrefix(strings.TrimSpace(line), "!") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// checkMemoryParts: what promwarp says its memory is for adds up to what the process has,
// but for the pages of its program file.
func checkMemoryParts(t *testing.T, url string) {
	t.Helper()
	const program = 64 << 20 // bytes, at most
	resp, err := http.Get(url + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	var parts, resident float64
	for line := range strings.Lines(string(page)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		switch {
		case strings.HasPrefix(name, "promwarp_memory_bytes{"):
			parts += v
		case name == "process_resident_memory_bytes":
			resident = v
		}
	}
	t.Logf("%.0f MB in parts, %.0f MB resident", parts/1e6, resident/1e6)
	require.Positive(t, parts)
	require.Less(t, parts, 1.15*resident)
	require.Greater(t, parts, resident/1.15-program)
}
