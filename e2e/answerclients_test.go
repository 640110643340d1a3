//go:build answers

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// programs that read answers: those of examples/answers, and what they need.
var answerClients = []struct{ name, program, file string }{
	{"Arrow for JavaScript", "node", "arrow.mjs"},
	{"DuckDB", "node", "duckdb.mjs"},
	{"pandas", "python3", "frame.py"},
}

// TestAnswerClients: Arrow for JavaScript, DuckDB and pandas read the rows that JSON has. The
// programs are those of examples/answers, from the folder ANSWERS with what they need installed.
func TestAnswerClients(t *testing.T) {
	folder := os.Getenv("ANSWERS")
	require.NotEmpty(t, folder, "run it by make test-answers")
	end := time.Now().Add(-time.Hour).Truncate(time.Hour)
	up := prometheus(t, mustFreeAddr(t), smallData(t, end, 6), "")
	pw := promwarp(t, up.URL)
	resampled := url.Values{
		"metric": {"http_requests_total"}, "start": {strconv.FormatInt(end.Add(-3*time.Hour).Unix(), 10)}, "end": {strconv.FormatInt(end.Unix(), 10)},
		"every": {"5m"}, "aggregates": {"count,mean,rate:max"}, "by": {"job,code"}, "fill": {"null"},
	}
	promQL := grid{end.Add(-2 * time.Hour), end, time.Minute}.rangeForm("sum by (job) (rate(http_requests_total[5m]))")
	for name, form := range map[string]url.Values{"resampled": resampled, "PromQL": promQL} {
		form.Set("format", "ndjson")
		want := linesOf(t, pw.URL+"/query?"+form.Encode())
		require.Greater(t, len(want), 100)
		form.Del("format")
		for _, c := range answerClients {
			t.Run(name+" by "+c.name, func(t *testing.T) {
				got := rowsPrinted(t, c.program, filepath.Join(folder, c.file), pw.URL+"/query?"+form.Encode())
				require.Equal(t, want, got)
			})
		}
	}
	// What DuckDB makes of an answer is what promwarp answers when asked for that.
	t.Run("SQL over an answer", func(t *testing.T) {
		const sql = "SELECT time_bucket(INTERVAL 1 HOUR, time) AS time, job, code, sum(count) AS count FROM answer GROUP BY ALL ORDER BY ALL"
		resampled.Set("aggregates", "count")
		resampled.Del("fill")
		got := rowsPrinted(t, "node", filepath.Join(folder, "duckdb.mjs"), pw.URL+"/query?"+resampled.Encode(), sql)
		resampled.Set("every", "1h")
		resampled.Set("format", "ndjson")
		require.Equal(t, linesOf(t, pw.URL+"/query?"+resampled.Encode()), got)
	})
	t.Run("wide", func(t *testing.T) {
		promQL.Set("layout", "wide")
		cmd := exec.Command("node", filepath.Join(folder, "arrow.mjs"), pw.URL+"/query?"+promQL.Encode())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		first, _, _ := strings.Cut(string(out), "\n")
		var row map[string]float64
		require.NoError(t, json.Unmarshal([]byte(first), &row), first)
		require.Contains(t, row, `{job="job-0"}`)
	})
	t.Run("an error", func(t *testing.T) {
		for _, c := range answerClients {
			out, err := exec.Command(c.program, filepath.Join(folder, c.file), pw.URL+"/query?query=sum(").CombinedOutput()
			require.Error(t, err, "%s: %s", c.name, out)
		}
	})
}

// rowsPrinted are the rows of an answer that a program prints as lines of JSON, in order.
func rowsPrinted(t *testing.T, program string, args ...string) (rows []string) {
	out, err := exec.Command(program, args...).Output()
	var failed *exec.ExitError
	if err != nil {
		if f, ok := err.(*exec.ExitError); ok {
			failed = f
		}
		require.Nil(t, failed, "%v: %s", args, failed.Stderr)
		require.NoError(t, err)
	}
	for line := range strings.Lines(string(out)) {
		var row map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &row), line)
		at := row["time"]
		if text, ok := at.(string); ok { // DuckDB's and pandas' times
			text = strings.NewReplacer(" ", "T", "+00", "Z").Replace(text)
			parsed, err := time.Parse(time.RFC3339, text)
			require.NoError(t, err)
			at = float64(parsed.UnixMilli())
		}
		delete(row, "time")
		rows = append(rows, rowText(at, row))
	}
	slices.Sort(rows)
	return rows
}

// linesOf are the rows of an answer that promwarp gives as NDJSON, in order.
func linesOf(t *testing.T, ask string) (rows []string) {
	resp, err := http.Get(ask)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	for d := json.NewDecoder(resp.Body); d.More(); {
		var line struct {
			Metric    map[string]string
			Timestamp float64
			Values    map[string]any
			Value     any
			Warnings  []string
		}
		require.NoError(t, d.Decode(&line))
		require.Empty(t, line.Warnings)
		row := line.Values
		if row == nil {
			row = map[string]any{"value": line.Value}
		}
		for name, value := range line.Metric {
			row[name] = value
		}
		rows = append(rows, rowText(line.Timestamp*1000, row))
	}
	slices.Sort(rows)
	return rows
}

// rowText is a row in one way, whichever client has read it. What is null is not there.
func rowText(ms any, row map[string]any) string {
	for name, v := range row {
		if v == nil {
			delete(row, name)
		} else {
			row[name] = fmt.Sprint(v)
		}
	}
	b, _ := json.Marshal(row) // in the order of names
	return fmt.Sprintf("%.0f %s", ms, b)
}
