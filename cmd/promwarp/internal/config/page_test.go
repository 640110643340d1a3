package config

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

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
	"aggregates":  "a list of [custom aggregates](query.md#custom-aggregates)",
	"tracing":     "where traces go, with the keys of [Prometheus's](https://prometheus.io/docs/prometheus/latest/configuration/configuration/#tracing_config)",
}

// entryKeys are the keys of an entry of remote_read that Prometheus does not have.
var entryKeys = map[string]string{
	"on_failure":          "what becomes of a query when the upstream fails: `error`, the default, or `warn`, which answers without it and says so",
	"api_url":             "base of its HTTP API, for labels and metadata, where its `url` does not end in `/api/v1/read`",
	"retention":           "instead of `upstream.retention`",
	"external_labels":     "instead of `upstream.external_labels`",
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
	t.Setenv("XDG_CACHE_HOME", "/cache") // gpu.constants is in it
	var out strings.Builder
	say := func(f string, args ...any) { fmt.Fprintf(&out, f, args...) }
	code := func(text string) string {
		if text == "" {
			return ""
		}
		return "`" + text + "`"
	}
	begin := func(title string) {
		say("\n### %s\n\n| flag | key | holds | default | a reload | |\n| --- | --- | --- | --- | --- | --- |\n", title)
	}
	say("%s", configurationHead)
	begin("The file")
	say("| `--config.file` |  | path |  |  | %s |\n", fileHelp)
	settings, title, sections := Default(), "", map[string]bool{}
	for _, row := range table {
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
			initial = code(strings.NewReplacer("/cache/", "…/", "0B", "0").Replace(initial))
		}
		say("| `--%s` | `%s` | %s | %s | %s | %s |\n", row.flag, row.key, kind, initial, row.reload, help)
	}

	say("%s", "\n## In the file alone\n\n| key | |\n| --- | --- |\n")
	keys := func(of reflect.Type, said map[string]string) {
		for i := range of.NumField() {
			if key := of.Field(i).Tag.Get("yaml"); key != "-" && !sections[key] {
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

const configurationHead = `# Configuration

All settings, for whoever looks one up. Which of them one sets, and why, is in [operating](operating.md),
[upstreams](upstreams.md) and [sizing](sizing.md). This page is made from the program, by

    go test ./cmd/promwarp/internal/config -run TestConfigurationPage -update

A setting is a flag of ` + "`promwarp serve`" + `, or a key of the file that ` + "`--config.file`" + ` names; the flag wins. A key ` + "`a.b_c`" + `
is ` + "`a: {b_c: …}`" + ` there. An unknown key is an error. [promwarp.yml](../examples/promwarp.yml) is an example.

| holds | written as |
| --- | --- |
| duration | ` + "`15s`, `5m`, `1h30m`, `1d`, `1w`, `1y`" + ` |
| size | bytes, or ` + "`64MiB`, `4GiB`; `MB` and `GB`" + ` are powers of two, too |
| yes or no | ` + "`--flag` or `--no-flag`; `true` or `false`" + ` in the file |
| list | in the file a list, or one text; of a flag with commas, or the flag several times for ` + "`--web.listen-address`" + ` |
| path | in the file relative to the file's folder, of a flag to the working directory |

` + "`SIGHUP`, and `POST /-/reload` with `--web.enable-lifecycle`" + `, read the file again. *At once*: requests that begin after
that go by the new setting. *Opens the cache anew*: what is in memory is forgotten, what is in ` + "`cache.path`" + ` stays if
the source is the same. *Restart*: a reload changes nothing, and logs that.

## Flags of ` + "`promwarp serve`" + `
`

const entriesHead = `
An entry of ` + "`remote_read`" + ` has these keys more. A change of ` + "`on_failure`" + ` takes effect at once; of the others it opens
the cache of that upstream anew.

| key | |
| --- | --- |
`

const environment = `
## Environment

No setting of a server is read from the environment. The Go runtime inside reads these:

| variable | |
| --- | --- |
| ` + "`GOMEMLIMIT`" + ` | the memory that the program may use, if that is less than the machine's, the container's or the unit's: ` + "`memory.limit`" + ` follows from it |
| ` + "`GOGC`" + ` | how far the heap may grow, in percent; without it promwarp chooses, by what is kept |
| ` + "`GOMAXPROCS`" + ` | cores to use; by default those that the machine or the container has |
| ` + "`XDG_CACHE_HOME`, `HOME`" + ` | where ` + "`gpu.constants`" + ` is by default: … stands for it above |
| ` + "`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`" + ` | used for an entry of ` + "`remote_read`" + ` with ` + "`proxy_from_environment: true`" + ` |
`
