package config

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/docs/markdown"
)

// TestExampleConfiguration: the example is a configuration that serve takes.
func TestExampleConfiguration(t *testing.T) {
	s, err := readSettings("../../../../examples/promwarp.yml")
	require.NoError(t, err)
	s.Divide()
	require.NoError(t, s.Validate())
	require.Len(t, s.RemoteRead, 1)
}

// TestExampleAggregates: so is the example of custom aggregates.
func TestExampleAggregates(t *testing.T) {
	s, err := readSettings("../../../../examples/aggregates.yml")
	require.NoError(t, err)
	s.Divide()
	require.NoError(t, s.Validate())
	require.Len(t, s.Aggregates, 7)
	l, err := s.Library()
	require.NoError(t, err)
	_, err = l.Parse("rate:geomean")
	require.NoError(t, err)
}

// TestPages: settings that pages and examples show are settings that serve takes; Prometheus takes
// what is shown for it.
func TestPages(t *testing.T) {
	const root = "../../../.."
	shown := map[string]string{}
	pages, err := markdown.Pages(root)
	require.NoError(t, err)
	for file, text := range pages {
		for _, b := range markdown.Blocks(text) {
			if b.Language == markdown.YAML {
				shown[fmt.Sprintf("%s:%d", file, b.Line)] = b.Text
			}
		}
	}
	require.NoError(t, markdown.Walk(filepath.Join(root, "examples"), func(file string) {
		if text, err := os.ReadFile(filepath.Join(root, "examples", file)); err == nil && filepath.Ext(file) == ".yml" {
			shown[file] = string(text)
		}
	}))
	taken := map[string]int{}
	for place, text := range shown {
		t.Run(place, func(t *testing.T) {
			var keys map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(text), &keys))
			has := func(names ...string) bool {
				return slices.ContainsFunc(names, func(n string) bool { _, ok := keys[n]; return ok })
			}
			file := filepath.Join(t.TempDir(), "shown.yml")
			require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
			switch {
			case has("groups"):
				taken["rules"]++
				_, errs := rulefmt.Parse([]byte(text), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
				require.Empty(t, errs)
			case has("global", "scrape_configs", "rule_files"):
				taken["Prometheus"]++
				_, err := promconfig.LoadFile(file, false, slog.New(slog.DiscardHandler))
				require.NoError(t, err)
			case has("apiVersion", "services", "receivers"):
				// Grafana's, Docker's, OpenTelemetry's.
			default:
				taken["promwarp"]++
				s, err := readSettings(file)
				require.NoError(t, err)
				s.Divide()
				require.NoError(t, s.ValidateLimits())
				if has("upstream", "remote_read") {
					_, err = s.Sources()
					require.NoError(t, err)
				}
			}
		})
	}
	require.Positive(t, taken["Prometheus"])
	require.Greater(t, taken["promwarp"], 5)
}
