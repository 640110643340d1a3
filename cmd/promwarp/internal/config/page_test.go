package config

import (
	_ "embed"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/docs/markdown"
)

// What the page says before settings, before hidden ones, before keys of entries, and at its end.
var (
	//go:embed testdata/head.md
	configurationHead string
	//go:embed testdata/hidden.md
	hiddenHead string
	//go:embed testdata/entries.md
	entriesHead string
	//go:embed testdata/environment.md
	environment string
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

// mostDocumented is the number of flags that help and pages describe at most.
const mostDocumented = 45

// TestDocumented bounds what one has to read before one can choose.
func TestDocumented(t *testing.T) {
	app := kingpin.New("test", "")
	command := app.Command("serve", "")
	new(Flags).Add(command, true)
	documented := 0
	for _, f := range command.Model().Flags {
		if !f.Hidden {
			documented++
		}
	}
	require.LessOrEqual(t, documented, mostDocumented)
	require.Greater(t, documented, mostDocumented/2)
}

// TestConfigurationPage holds docs/configuration.md against the flags and the settings.
func TestConfigurationPage(t *testing.T) {
	const file = "../../../../docs/configuration.md"
	want := configurationPage(t)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
	}
	have, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(have), "docs/configuration.md is stale: go test ./cmd/promwarp/internal/config -run TestConfigurationPage -update")
}

// fileKeys are the keys of the file that have no flag.
var fileKeys = map[string]string{
	"remote_read": "what is read from instead of `upstream.url`: a list, with keys of [Prometheus's](https://prometheus.io/docs/prometheus/latest/configuration/configuration/#remote_read): `url`, `name`, `remote_timeout`, `headers`, `basic_auth`, `tls_config` …; [several](upstreams.md#several-upstreams)",
	"stores":      "stores of Thanos that are read from instead: a list with `address` (host:port), `name`, `remote_timeout`, `tls_config` (or no TLS), `headers`, `max_resolution`, and, as below, `on_failure`, `retention`, `fresh`, `recheck`, `out_of_order_window`, `max_age`; see [Thanos](thanos-mimir.md#thanos)",
	"aggregates":  "a list of [custom aggregates](query.md#custom-aggregates)",
	"tracing":     "where traces go, with the keys of [Prometheus's](https://prometheus.io/docs/prometheus/latest/configuration/configuration/#tracing_config)",
}

// entryKeys are the keys of an entry of remote_read that Prometheus does not have.
var entryKeys = map[string]string{
	"replicas":            "instead of `url`, servers that scrape the same: `urls`, `label`, `merge`, which is `failover` or `penalty`; [replicas](upstreams.md#replicas)",
	"on_failure":          "what becomes of a query when the upstream fails: `error`, the default, or `warn`, which answers without it and says so",
	"api_url":             "base of its HTTP API, for labels and metadata, where its `url` does not end in `/api/v1/read`",
	"retention":           "instead of `upstream.retention`",
	"external_labels":     "instead of `upstream.external_labels`",
	"replica_labels":      "instead of `upstream.replica_labels`",
	"fresh":               "instead of `cache.fresh`",
	"recheck":             "instead of `cache.recheck`",
	"out_of_order_window": "instead of `cache.out_of_order_window`",
	"max_age":             "instead of `cache.max_age`",
}

// kinds are what settings of a type hold.
var kinds = map[string]string{
	"string": "text", "bool": "yes or no", "int": "number", "float64": "number, 0 to 1", "Duration": "duration", "AutoDuration": "duration, `auto`",
	"ByteSize": "size", "List": "list", "ExternalLabels": "mapping, `auto`, `none`, `keep`", "Exact": "`1e-12`, `bits`",
}

func configurationPage(t *testing.T) string {
	var out strings.Builder
	say := func(f string, args ...any) { fmt.Fprintf(&out, f, args...) }
	code := func(text string) string {
		if text == "" {
			return ""
		}
		return "`" + text + "`"
	}
	begin := func(title string) {
		say("\n### %s\n\n| flag | holds | default | a reload | |\n| --- | --- | --- | --- | --- |\n", title)
	}
	say("%s", configurationHead)
	begin(table[0].title)
	say("| `--config.file` | path |  |  | %s |\n", fileHelp)
	settings, title, sections, hidden := Default(), table[0].title, map[string]bool{}, map[string][]string{}
	for _, row := range table {
		if row.isHidden() {
			hidden[row.title] = append(hidden[row.title], "`--"+row.flag+"`")
			continue
		}
		if row.title != title {
			title = row.title
			begin(title)
		}
		section, _, _ := strings.Cut(row.key, ".")
		sections[section] = true
		kind, initial := kinds[row.Type.Name()], row.text(&settings)
		require.NotEmpty(t, kind, "say what a %s holds", row.Type)
		switch of := row.Tag.Get("of"); {
		case of != "":
			kind = "`" + strings.ReplaceAll(of, ", ", "`, `") + "`"
		case row.isPath():
			kind = "path"
		}
		help := row.Tag.Get("help")
		require.NotContains(t, help, "|", "a cell of a table")
		switch {
		case strings.Contains(strings.ToLower(help), "by default "):
			initial = ""
		case initial == "false":
			initial = "no"
		default:
			initial = code(initial)
		}
		say("| `--%s` | %s | %s | %s | %s |\n", row.flag, kind, initial, row.reload, help)
	}
	say("%s", hiddenHead)
	for _, row := range table {
		if flags := hidden[row.title]; flags != nil {
			say("| %s | %s |\n", row.title, strings.Join(flags, ", "))
			delete(hidden, row.title)
		}
	}

	say("%s", "\n## In the file alone\n\n| key | |\n| --- | --- |\n")
	keys := func(of reflect.Type, said map[string]string) {
		for _, field := range reflect.VisibleFields(of) {
			if key := field.Tag.Get("yaml"); key != "-" && !field.Anonymous && !sections[key] {
				require.NotEmpty(t, said[key], "say what %s does", key)
				say("| `%s` | %s |\n", key, said[key])
			}
		}
	}
	keys(reflect.TypeFor[Settings](), fileKeys)
	say("%s", entriesHead)
	keys(reflect.TypeFor[RemoteReadExtras](), entryKeys)
	say("%s", environment)
	return out.String()
}

// TestExampleAggregates: the example of custom aggregates has those that pages name.
func TestExampleAggregates(t *testing.T) {
	s, err := readSettings("../../../../examples/aggregates.yml")
	require.NoError(t, err)
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
