package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
)

// place is what an error about a configuration names: a line, an entry, or a setting, whose
// words underscores or dots join.
var place = regexp.MustCompile(`line \d+|entry \d+|[a-z]+[._][a-z_]+`)

// quotedText is what an error quotes of the file.
var quotedText = regexp.MustCompile("(?s)\".*\"|`.*`|'.*'")

// FuzzSettings reads any bytes as a configuration file: settings that can be used, or an error
// that says what is wrong with which line or setting, in words that name no Go type.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(fullFile))
	for _, text := range []string{
		"", "upstream: {url: http://p:9090}", "a: &a [*a]", "cache: {host_bytes: -1}", "cache: {fresh: 1}", "query: {timeout: 0s}",
		"aggregates: [{name: a, state: {s: 0}, add: {s: s + }, merge: {s: a.s}, result: s}]", "aggregates: [null, {}, {state: 1}]",
		"remote_read: [null]", "remote_read: [{url: 'http://p/api/v1/read', on_failure: warn}]", "remote_read: [{url: \"%\"}]",
		"web: {listen_address: {a: 1}}", "- 1", "upstream: {url: 1, url: 2}", "memory: {limit: 99999999999GiB}", "gpu: {devices: [x]}",
		"enable_feature: [a]", "storage: {remote_read_chunks: all}", "? [a]\n: b", "\x00", "%YAML 9.9\n---\n", "query: {lookback_delta: auto}\n---\n",
	} {
		f.Add([]byte(text))
	}
	file := filepath.Join(f.TempDir(), "promwarp.yml")
	f.Fuzz(func(t *testing.T, text []byte) {
		require.NoError(t, os.WriteFile(file, text, 0o600))
		s, err := readSettings(file)
		if err != nil {
			require.ErrorAs(t, err, new(UsageError))
			require.True(t, strings.HasPrefix(err.Error(), file+": "), err)
			requirePlain(t, strings.TrimPrefix(err.Error(), file+": "))
			return
		}
		s.Divide()
		if err := s.Validate(); err != nil {
			requirePlain(t, err.Error())
			return
		}
		s.Values()
		all, err := s.Sources()
		require.NoError(t, err)
		for _, from := range all {
			_, err := from.Identity()
			require.NoError(t, err)
		}
	})
}

// requirePlain checks that an error says where it is, in words.
func requirePlain(t *testing.T, text string) {
	t.Helper()
	require.Regexp(t, place, text)
	require.NotRegexp(t, `\bconfig\.[A-Z]|struct \{|interface \{|!!|%!`, quotedText.ReplaceAllString(text, ""))
}

// TestErrorsNameThePlace: an error about a configuration file names the setting, the entry of a
// list or the line.
func TestErrorsNameThePlace(t *testing.T) {
	for text, want := range map[string]string{
		"web: {enable_pprof: true}\nquery: {max_samples: 1, timeout: 1}":                       `line 2: query.timeout: not a valid duration string: "1"; write one such as 30s, 5m or 1d`,
		"cache: {host_bytes: 9EiB}":                                                            `line 1: cache.host_bytes: not a size in bytes: "9EiB"`,
		"remote_read: [{url: 'http://p/api/v1/read'}, {url: 'http://q', remote_timeout: 1y2}]": "line 1: remote_read: entry 2: remote_timeout: ",
		"log: {level: info}\n\nweb: \x01":                                                      "line 3: control characters are not allowed",
		"log: {level: info}\ncache: &c {<<: *c}":                                               "line 2: cache: anchor 'c' value contains itself",
		"query: {}\ncaches: {}":                                                                `line 2: caches: unknown key "caches"`,
	} {
		file := testfiles.Config(t, text)
		_, err := readSettings(file)
		require.ErrorContains(t, err, file+": "+want)
	}
}

// TestAllFaults: every value that does not parse is named, by its line and its setting, in the file's
// order, and nothing else is.
func TestAllFaults(t *testing.T) {
	file := testfiles.Config(t, `remote_read:
  - url: "http://p:9090/%"
    remote_timeout: soon
    on_failure: ignore
    tls_config: {min_version: TLS9, ca_file: ca.pem}
  - name: no-address
  - url: http://q
    headers: {Authorization: x}
  - {url: http://r, uri: x}
query:
  timeout: soon
  max_samples: many
  lookback_delta: later
  tiemout: 1m
  timeout: 1m
cache:
  host_bytes: much
  fresh: 5m
  disk_bytes: [1]
web: {listen_address: {a: 1}, enable_pprof: perhaps}
storage: {remote_read_max_queries: 1}
aggregates:
  - {name: a, combine: {s: 0}, state: [1]}
tracing: {endpoint: "localhost:4317", sampling_fraction: some}
queries: {}
`)
	_, err := readSettings(file)
	require.Error(t, err)
	require.Equal(t, strings.TrimSpace(`
line 2: remote_read: entry 1: url: invalid URL escape "%"; write a URL such as http://prometheus:9090
line 3: remote_read: entry 1: remote_timeout: not a valid duration string: "soon"; write one such as 30s, 5m or 1d
line 4: remote_read: entry 1: on_failure: "ignore" is neither error, which is the default, nor warn, which answers without the upstream
line 5: remote_read: entry 1: tls_config: min_version: unknown TLS version: TLS9; write TLS10, TLS11, TLS12 or TLS13
line 6: remote_read: entry 2: url for remote_read is empty
line 8: remote_read: entry 3: headers: Authorization: authorization header must be changed via the basic_auth, authorization, oauth2, sigv4, azuread or google_iam parameter
line 9: remote_read: entry 4: uri: unknown key "uri"
line 11: query.timeout: not a valid duration string: "soon"; write one such as 30s, 5m or 1d
line 12: query.max_samples: 'many' does not fit here, where a value of type whole number belongs
line 13: query.lookback_delta: not a duration: "later"; write one such as 15s, or auto for the upstream's
line 14: query.tiemout: unknown key "tiemout"
line 15: query: key "timeout" is given twice, first in line 11
line 17: cache.host_bytes: not a size in bytes: "much"; write one such as 4GiB or 512MiB
line 19: cache.disk_bytes: a list does not fit here, where a value of type size, such as 4GiB, belongs
line 20: web.listen_address: a mapping does not fit here, where a value of type list belongs
line 20: web.enable_pprof: 'perhaps' does not fit here, where a value of type true or false belongs
line 23: aggregates: entry 1: combine: unknown key "combine"
line 23: aggregates: entry 1: state: a list does not fit here, where a value of type mapping belongs
line 24: tracing.sampling_fraction: 'some' does not fit here, where a value of type number belongs
line 25: queries: unknown key "queries"
`), strings.NewReplacer(file+": ", "", "`", "'").Replace(err.Error()))
}
