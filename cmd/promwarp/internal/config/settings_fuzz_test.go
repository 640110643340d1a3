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
		"web: {enable_pprof: true}\nquery: {max_samples: 1, timeout: 1}":                       `query.timeout: not a valid duration string: "1"`,
		"cache: {host_bytes: 9EiB}":                                                            `cache.host_bytes: not a size in bytes: "9EiB"`,
		"remote_read: [{url: 'http://p/api/v1/read'}, {url: 'http://q', remote_timeout: 1y2}]": "remote_read: entry 2: ",
		"enable_feature: [a]":                    `enable_feature: entry 1: unknown feature "a"`,
		"log: {level: info}\n\nweb: \x01":        "line 3: control characters are not allowed",
		"log: {level: info}\ncache: &c {<<: *c}": "line 2: anchor 'c' value contains itself",
		"query: {}\ncaches: {}":                  `line 2: unknown key "caches"`,
	} {
		file := testfiles.Config(t, text)
		_, err := readSettings(file)
		require.ErrorContains(t, err, file+": "+want)
	}
}
