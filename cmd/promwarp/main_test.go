package main

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestExecute(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, exitUsage, execute(context.Background(), []string{"query", "--bogus"}, &stderr))
	require.Contains(t, stderr.String(), "--bogus")
	stderr.Reset()
	require.Equal(t, exitUsage, execute(context.Background(), []string{"serve"}, &stderr))
	require.Contains(t, stderr.String(), "nothing to read from")
	stderr.Reset()
	require.Equal(t, exitUsage, execute(context.Background(), []string{"serve", "--cache.host-bytes=much"}, &stderr))
	require.Contains(t, stderr.String(), "--cache.host-bytes")
}

func TestWhen(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"now": now, "-24h": now.AddDate(0, 0, -1), "now-1d": now.AddDate(0, 0, -1), "now+1h30m": now.Add(90 * time.Minute),
		"2026-01-02T03:04:05Z": now, fmt.Sprint(now.Unix()): now, "1.5": time.UnixMilli(1500).UTC(),
	} {
		got, err := parseWhen(text, now)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got), text)
	}
	for _, text := range []string{"", "noon", "24h", "now24h", "-", "NaN", "1e300"} {
		_, err := parseWhen(text, now)
		require.Error(t, err, text)
	}
	require.Equal(t, 5*time.Minute+45*time.Second, defaultStep(now.Add(-24*time.Hour), now))
	require.Equal(t, time.Second, defaultStep(now, now))
}

// TestGroups: help names each command once.
func TestGroups(t *testing.T) {
	var named, declared []string
	for _, g := range groups {
		named = append(named, g.Commands...)
	}
	app, _ := application()
	for _, c := range app.Model().FlattenedCommands() {
		if c.FullCommand != "help" {
			declared = append(declared, c.FullCommand)
		}
	}
	require.ElementsMatch(t, declared, named)
}
