package e2e

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// promtool's queries give with promwarp what they give with the Prometheus behind it.
func TestPromtool(t *testing.T) {
	bin, err := buildFromPrometheus("promtool")
	require.NoError(t, err)
	b := busy(t)
	start, end := seconds(b.grid.start), seconds(b.grid.end)
	for name, c := range map[string]struct {
		args      []string // {server} is the server's URL
		fails     bool
		unordered bool   // promtool prints the lines in any order
		own       string // what promwarp says in words of its own
	}{
		"instant":           {args: []string{"query", "instant", "--time=" + end, "{server}", `sort_desc(sum by (job) (rate(http_requests_total[5m])))`}},
		"instant in JSON":   {args: []string{"query", "instant", "--format=json", "--time=" + end, "{server}", `topk(3, process_resident_memory_bytes)`}},
		"instant, wrong":    {args: []string{"query", "instant", "--time=" + end, "{server}", `sum(`}, fails: true},
		"range":             {args: []string{"query", "range", "--start=" + start, "--end=" + end, "--step=1m", "{server}", `sum by (job) (rate(http_requests_total[5m]))`}},
		"range in JSON":     {args: []string{"query", "range", "--format=json", "--start=" + start, "--end=" + end, "{server}", `histogram_quantile(0.9, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))`}},
		"range with limits": {args: []string{"query", "range", "--start=" + start, "--end=" + end, "--step=1s", "{server}", `up`}, fails: true},
		"series":            {args: []string{"query", "series", "--match=up", `--match=node_memory_bytes{type="free"}`, "--start=" + start, "--end=" + end, "{server}"}},
		"labels":            {args: []string{"query", "labels", "--start=" + start, "--end=" + end, "{server}", "job"}},
		"labels of some":    {args: []string{"query", "labels", "--match=shop_orders_total", "{server}", "kind"}},
		"analyze":           {args: []string{"query", "analyze", "--server={server}", "--type=histogram", "--duration=2h", "--time=" + end, "--match=http_request_duration_seconds_bucket"}, unordered: true},
		"healthy":           {args: []string{"check", "healthy", "--url={server}"}, own: "SUCCESS:  promwarp is healthy."},
		"ready":             {args: []string{"check", "ready", "--url={server}"}, own: "SUCCESS:  promwarp is ready."},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(server string) (string, error) {
				args := slices.Clone(c.args)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "{server}", server)
				}
				out, err := exec.Command(bin, args...).CombinedOutput()
				return strings.ReplaceAll(string(out), server, "{server}"), err
			}
			want, wantErr := run(b.url)
			got, gotErr := run(b.promwarp.url)
			if c.unordered {
				want, got = sortedLines(want), sortedLines(got)
			}
			if c.own != "" {
				require.Contains(t, got, c.own)
			} else {
				require.Equal(t, want, got)
			}
			require.NotEmpty(t, got)
			require.Equal(t, c.fails, wantErr != nil, want)
			require.Equal(t, c.fails, gotErr != nil, got)
		})
	}
}

func sortedLines(text string) string {
	return strings.Join(slices.Sorted(strings.Lines(text)), "")
}
