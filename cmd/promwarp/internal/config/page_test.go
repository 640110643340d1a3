package config

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"
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

// sections are the titles of the page by the first word of flags, in the page's order. Flags with
// another first word come last, below it.
var sections = []struct{ word, title string }{
	{"config", "The file"}, {"upstream", "What is read from"}, {"tsdb", "A data directory instead"}, {"query", "Queries"},
	{"enable-feature", "Features"}, {"memory", "Memory"}, {"cache", "The cache"}, {"gpu", "GPUs"}, {"web", "The HTTP server"},
	{"storage", "Remote read that is answered"}, {"read", "Readers that get less"}, {"compare", "Checking answers"}, {"log", "The log"},
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

// kinds are what settings of a type hold, where the type's kind does not tell.
var kinds = map[string]string{
	"Duration": "duration", "AutoDuration": "duration, `auto`", "ByteSize": "size", "Addresses": "list", "ordinals": "list of numbers",
	"gpuMode": "`auto`, `off`, `require`", "chunkEncodings": "`auto`, `as-is`, `xor`", "featureList": "list, `auto`, `none`",
	"ExternalLabels": "mapping, `auto`, `none`, `keep`", "fraction": "number, 0 to 1", "part": "number, 0 to 1",
}

func configurationPage(t *testing.T) string {
	t.Setenv("XDG_CACHE_HOME", "/cache") // gpu.constants is in it
	serve := kingpin.New("promwarp", "").Command("serve", "")
	new(Flags).AddAll(serve)
	var out strings.Builder
	say := func(f string, args ...any) { fmt.Fprintf(&out, f, args...) }
	say("%s", configurationHead)

	byWord := map[string][]*kingpin.FlagModel{}
	order := []string{}
	for _, s := range sections {
		order = append(order, s.word)
	}
	for _, f := range serve.Model().Flags {
		word, _, _ := strings.Cut(f.Name, ".")
		if !slices.Contains(order, word) {
			order = append(order, word)
		}
		byWord[word] = append(byWord[word], f)
	}
	settings := Default()
	values := settings.Values()
	keys := map[string]bool{}
	for _, word := range order {
		title := word
		for _, s := range sections {
			if s.word == word {
				title = s.title
			}
		}
		say("\n### %s\n\n| flag | key | holds | default | a reload | |\n| --- | --- | --- | --- | --- | --- |\n", title)
		for _, f := range byWord[word] {
			key, kind := "", "path"
			if f.Name != "config.file" {
				var typ reflect.Type
				key, typ = settingOf(t, f.Name)
				keys[strings.SplitN(key, ".", 2)[0]] = true
				if f.PlaceHolder != "FILE" && f.PlaceHolder != "DIRECTORY" {
					kind = kindOf(typ)
				}
			}
			say("| `--%s` | %s | %s | %s | %s | %s |\n", f.Name, code(key), kind, defaultOf(values[f.Name], f.Help), reloadOf(f.Name), cell(f.Help))
		}
	}

	say("%s", "\n## In the file alone\n\n| key | |\n| --- | --- |\n")
	all := reflect.TypeFor[Settings]()
	for i := range all.NumField() {
		if key := all.Field(i).Tag.Get("yaml"); key != "-" && !keys[key] {
			require.NotEmpty(t, fileKeys[key], "say what %s of the file does", key)
			say("| `%s` | %s |\n", key, fileKeys[key])
		}
	}
	say("%s", entriesHead)
	extras := reflect.TypeFor[RemoteReadExtras]()
	for i := range extras.NumField() {
		name := extras.Field(i).Tag.Get("yaml")
		require.NotEmpty(t, entryKeys[name], "say what %s of an entry of remote_read does", name)
		say("| `%s` | %s |\n", name, entryKeys[name])
	}

	say("%s", environment)
	return out.String()
}

// settingOf is the key of a flag in the file, and the type of its setting.
func settingOf(t *testing.T, flag string) (key string, of reflect.Type) {
	section, rest, dotted := strings.Cut(flag, ".")
	path := []string{strings.ReplaceAll(section, "-", "_")}
	switch {
	case flag == "gpu":
		path = append(path, "mode")
	case dotted:
		path = append(path, strings.NewReplacer("-", "_", ".", "_").Replace(rest))
	}
	of = reflect.TypeFor[Settings]()
	for _, name := range path {
		f, ok := of.FieldByNameFunc(func(field string) bool {
			f, _ := of.FieldByName(field)
			return strings.Split(f.Tag.Get("yaml"), ",")[0] == name
		})
		require.True(t, ok, "the file has no key for --%s", flag)
		of = f.Type
	}
	return strings.Join(path, "."), of
}

// kindOf says what a setting of a type holds.
func kindOf(t reflect.Type) string {
	if kind := kinds[t.Name()]; kind != "" {
		return kind
	}
	switch t.Kind() {
	case reflect.Bool:
		return "yes or no"
	case reflect.Int, reflect.Int64, reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list"
	}
	return "text"
}

// defaultOf is a default as the page has it, unless the help text says what it follows from.
func defaultOf(value, help string) string {
	switch {
	case strings.Contains(strings.ToLower(help), "by default "):
		return ""
	case value == "false":
		return "no"
	case value == "0B":
		value = "0"
	}
	return code(strings.ReplaceAll(value, "/cache/", "…/"))
}

// reloadOf says what a change of a flag's setting takes. The cache is opened anew where its key, or
// that of the source (storeKeys in backend), changes.
func reloadOf(flag string) string {
	for _, f := range Fixed {
		if flag == f.Flag || strings.HasPrefix(flag, f.Flag+".") {
			return "restart"
		}
	}
	word, _, _ := strings.Cut(flag, ".")
	switch {
	case flag == "config.file":
		return ""
	case flag == "web.read-timeout":
		return "at once for bodies, else restart"
	case flag != "cache.results-bytes" && slices.Contains([]string{"upstream", "tsdb", "cache"}, word):
		return "opens the cache anew"
	}
	return "at once"
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

func cell(help string) string { return strings.ReplaceAll(help, "|", `\|`) }

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
