package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/remoteread"
	"github.com/promwarp/promwarp/remoteread/serve"
)

// parseFlags gives args to a command with all settings.
func parseFlags(t *testing.T, args ...string) *Flags {
	t.Helper()
	f := &Flags{}
	app := kingpin.New("test", "")
	f.Add(app, true)
	_, err := app.Parse(args)
	require.NoError(t, err)
	return f
}

func load(t *testing.T, args ...string) Settings {
	t.Helper()
	s, err := parseFlags(t, args...).Load()
	require.NoError(t, err)
	return s
}

// valueOf is a value of a setting that is not its default, as text.
func valueOf(t *testing.T, row *setting) string {
	if of := row.Tag.Get("of"); of != "" {
		words := strings.Split(of, ", ")
		return words[len(words)-1]
	}
	if row.Tag.Get("as") == "URL" {
		return "http://x:1"
	}
	text := map[string]string{
		"string": "x", "bool": "true", "int": "7", "float64": "0.5", "Duration": "7s", "AutoDuration": "7s", "ByteSize": "7KiB", "List": "a,b", "ExternalLabels": "keep", "Exact": "bits",
	}[row.Type.Name()]
	require.NotEmpty(t, text, "a value of type %s", row.Type)
	return text
}

// TestTable: each setting has a default that its flag's help shows, and is the same by its flag and by its
// key of the file, which no other setting is changed by. The flag wins.
func TestTable(t *testing.T) {
	defaults := Default()
	for _, row := range table {
		t.Run(row.flag, func(t *testing.T) {
			if text := row.Tag.Get("default"); text != "" {
				require.NoError(t, row.set(&defaults, text))
				require.Equal(t, text, strings.Replace(row.text(&defaults), "0B", "0", 1))
			}
			text := valueOf(t, &row)
			want := load(t)
			require.NoError(t, row.set(&want, text))
			require.NotEqual(t, row.text(&defaults), text)
			argument := "--" + row.flag + "=" + text
			if text == "true" {
				argument = "--" + row.flag
			}
			given := load(t, argument)
			require.Equal(t, text, given.Values()[row.flag])
			file := testfiles.Config(t, nested(row.key)+": "+text)
			read := load(t, "--config.file="+file)
			if row.isPath() {
				require.Equal(t, filepath.Join(filepath.Dir(file), text), row.text(&read))
				require.NoError(t, row.set(&read, text))
			}
			require.Equal(t, given, read)
			if row.Tag.Get("as") != "SIZE" { // others follow from these
				require.Equal(t, want, given)
			}
			other := testfiles.Config(t, "log: {queries: true}")
			both := load(t, "--config.file="+other, argument)
			require.Equal(t, text, row.text(&both))
			for _, tag := range []string{"least", "most"} {
				require.Equal(t, row.Tag.Get(tag) == "", row.bound(tag, -1) == -1, tag)
			}
		})
	}
	for _, flag := range []string{remoteread.FlagMaxBytes, remoteread.FlagMaxFrameBytes, remoteread.FlagExternalLabels, memory.FlagLimit} {
		require.Contains(t, defaults.Values(), flag, "errors name it")
	}
	require.Equal(t, []int64{remoteread.DefaultMaxBytes, remoteread.DefaultMaxFrameBytes, serve.DefaultFrameBytes},
		[]int64{int64(defaults.Upstream.MaxBytes), int64(defaults.Upstream.MaxFrameBytes), int64(defaults.Storage.Remote.ReadMaxBytesInFrame)})
	require.Equal(t, []time.Duration{cache.DefaultFresh, cache.DefaultRecheck, cache.DefaultMaxAge, defaultLookback},
		[]time.Duration{time.Duration(defaults.Cache.Fresh), time.Duration(defaults.Cache.Recheck), time.Duration(defaults.Cache.MaxAge), time.Duration(defaults.Readers.Lookback)})
	require.Equal(t, planner.Limits{Depth: planner.DefaultDepth, Length: planner.DefaultLength, RegexpSize: planner.DefaultRegexpSize, Selectors: planner.DefaultSelectors, Items: planner.DefaultItems}, defaults.Query.Limits())
	require.Equal(t, []int{50_000_000, 10, 1000}, []int{defaults.Storage.Remote.ReadSampleLimit, defaults.Storage.Remote.ReadConcurrentLimit, defaults.Storage.Remote.ReadMaxQueries})
	require.Equal(t, device.Library, defaults.GPU.Library)
}

// nested is a key with dots as those of mappings in mappings.
func nested(key string) (text string) {
	for depth, name := range strings.Split(key, ".") {
		if depth > 0 {
			text += ":\n" + strings.Repeat("  ", depth)
		}
		text += name
	}
	return text
}

const fullFile = `
upstream:
  url: http://meta:9090/prefix
remote_read:
  - url: http://p:9090/api/v1/read
    headers: {X-Scope-OrgID: me}
    basic_auth:
      username: me
      password_file: secrets/password
query: {timeout: 10s, max_samples: 5, max_memory: 1MiB, lookback_delta: 1m, exact: bits, tenant_header: X-Scope-OrgID}
aggregates: [{name: total, state: {s: 0}, add: {s: s + v}, result: s}]
cache: {host_bytes: 4GiB, decoded_bytes: 1GiB, path: kept, fresh: 1h}
web:
  listen_address: ["127.0.0.1:1", "127.0.0.1:2"]
  enable_pprof: true
storage: {remote: {read_sample_limit: 1}}
`

// onlySource is the one source that s names.
func onlySource(s *Settings) (Source, error) {
	all, err := s.Sources()
	if len(all) != 1 {
		return Source{}, errors.Join(err, fmt.Errorf("%d sources", len(all)))
	}
	return all[0], err
}

// TestFile: what the file says holds, but where the command line says otherwise. A source there replaces
// those of the file.
func TestFile(t *testing.T) {
	file := testfiles.Config(t, fullFile)
	s := load(t, "--config.file="+file)
	require.NoError(t, s.Validate())
	require.Equal(t, filepath.Join(filepath.Dir(file), "secrets/password"), s.RemoteRead[0].HTTPClientConfig.BasicAuth.PasswordFile)
	require.Empty(t, s.Replaced)
	src, err := onlySource(&s)
	require.NoError(t, err)
	require.Equal(t, "http://p:9090/api/v1/read", src.Remote.URL.String())
	require.Equal(t, "http://meta:9090/prefix", src.Base.String())
	remote := s.Storage.Remote
	require.Equal(t, []int{1, 1 << 20, 1000}, []int{remote.ReadSampleLimit, int(remote.ReadMaxBytesInFrame), remote.ReadMaxQueries})

	s = load(t, "--config.file="+file, "--web.listen-address=:3", "--web.listen-address=:4", "--no-web.enable-pprof", "--storage.remote.read-sample-limit=0", "--tsdb.path=d")
	require.Equal(t, List{":3", ":4"}, s.Web.ListenAddress)
	require.False(t, s.Web.EnablePprof)
	require.Zero(t, s.Storage.Remote.ReadSampleLimit, "no limit")
	src, err = onlySource(&s)
	require.NoError(t, err)
	require.Equal(t, Source{Dir: "d", Setting: "tsdb.path"}, src)
	require.Equal(t, "what the command line says to read from counts, and not upstream.url, tsdb.path, remote_read and stores of "+file, s.Replaced)
	s = load(t, "--config.file="+file, "--upstream.url=http://other")
	src, err = onlySource(&s)
	require.NoError(t, err)
	require.Equal(t, "http://other", src.Base.String())
	require.Empty(t, load(t, "--config.file="+testfiles.Config(t, "log: {level: info}"), "--upstream.url=http://other").Replaced)

	// One address may stand alone.
	s = load(t, "--config.file="+testfiles.Config(t, "web: {listen_address: ':9'}"))
	require.Equal(t, List{":9"}, s.Web.ListenAddress)
}

func TestSettingsErrors(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		args []string
		want []string
	}{
		"unknown key":         {file: "upstream:\n  uri: x\n", want: []string{`unknown key "uri"`, "line 2"}},
		"unknown key at top":  {file: "web: {}\nquerry: {}\n", want: []string{`unknown key "querry"`, "line 2"}},
		"unknown remote key":  {file: "remote_read:\n- url: http://p\n  uri: x\n", want: []string{`unknown key "uri"`, "line 3"}},
		"twice":               {file: "log: {}\nlog: {}\n", want: []string{`"log" is given twice`, "line 2"}},
		"no YAML":             {file: "a: [", want: []string{"line 1"}},
		"at least 0":          {args: []string{"--upstream.url=http://p", "--query.max-queue=-1"}, want: []string{"query.max_queue is -1 and must be at least 0; the default is 1000. Queries that", "0 lets none wait."}},
		"at least 1ms":        {file: "upstream: {url: http://p}\nquery: {timeout: 0s}\n", want: []string{"query.timeout is 0s and must be at least 1ms; the default is 2m. "}},
		"at least 4KiB":       {args: []string{"--upstream.url=http://p", "--web.max-header-bytes=1"}, want: []string{"web.max_header_bytes is 1B and must be 4KiB to 1GiB"}},
		"at most 1GiB":        {args: []string{"--upstream.url=http://p", "--web.max-header-bytes=9223372036854775807"}, want: []string{"web.max_header_bytes is", "must be 4KiB to 1GiB"}},
		"a part":              {args: []string{"--upstream.url=http://p", "--compare.fraction=1.01"}, want: []string{"compare.fraction is 1.01 and must be 0 to 1;"}},
		"no number":           {args: []string{"--upstream.url=http://p", "--compare.fraction=NaN"}, want: []string{"compare.fraction is NaN and must be 0 to 1;"}},
		"bad duration":        {file: "query: {timeout: soon}\n", want: []string{`"soon"`}},
		"bad size":            {file: "cache: {host_bytes: much}\n", want: []string{`"much"`, "4GiB"}},
		"more decoded":        {args: []string{"--upstream.url=http://p", "--cache.host-bytes=1GiB", "--cache.decoded-bytes=2GiB"}, want: []string{"cache.decoded_bytes", "cache.host_bytes"}},
		"disk alone":          {args: []string{"--upstream.url=http://p", "--cache.host-bytes=0", "--cache.path=d"}, want: []string{"cache.path", "cache.host_bytes"}},
		"negative age":        {file: "cache: {max_age: -1s}\n", want: []string{`"-1s"`}},
		"bad number":          {file: "query: {max_samples: many}\n", want: []string{"`many`", "whole number", "line 1"}},
		"wrong kind":          {file: "query: 5\n", want: []string{"mapping", "line 1"}},
		"empty entry":         {file: "remote_read: [null]\n", want: []string{"entry 1 is empty"}},
		"no url":              {file: "remote_read:\n- name: x\n", want: []string{"url for remote_read is empty"}},
		"nothing":             {want: []string{"--upstream.url", "--tsdb.path", "--config.file"}},
		"nothing in the file": {file: "log: {level: info}\n", want: []string{"nothing to read from"}},
		"both":                {args: []string{"--upstream.url=http://p", "--tsdb.path=d"}, want: []string{"upstream.url", "tsdb.path"}},
		"both in the file":    {file: "remote_read: [{url: http://p}]\ntsdb: {path: d}\n", want: []string{"remote_read", "tsdb.path"}},
		"several and a URL":   {file: "remote_read: [{url: http://p}, {url: http://q}]\nupstream: {url: http://p}\n", want: []string{"2 entries", "upstream.url", "api_url"}},
		"one twice":           {file: "remote_read: [{url: http://p}, {url: http://p, headers: {X-Scope-OrgID: b}}]\n", want: []string{"two entries are called http://p", "a name of its own"}},
		"on failure":          {file: "remote_read: [{url: http://p, on_failure: ignore}]\n", want: []string{"on_failure", `"ignore"`, "error", "warn"}},
		"bad API URL":         {file: "remote_read: [{url: http://p, api_url: p}]\n", want: []string{"entry 1", "api_url"}},
		"bad retention":       {file: "remote_read: [{url: http://p, retention: -1s}]\n", want: []string{`"-1s"`}},
		"their checks":        {file: "remote_read: [{url: http://p, on_failure: warn, headers: {Authorization: x}}]\n", want: []string{"authorization header must be changed"}},
		"no scheme":           {args: []string{"--upstream.url=prometheus"}, want: []string{"http://prometheus:9090"}},
		"another scheme":      {args: []string{"--upstream.url=ftp://p:9090"}, want: []string{"http://prometheus:9090"}},
		"no scheme, a user":   {args: []string{"--upstream.url=me:secret@p:9090"}, want: []string{`"(not a URL)"`}},
		"half a scheme":       {args: []string{"--upstream.url=htp//me:secret@p:9090"}, want: []string{`"(not a URL)"`}},
		"a tenant's header":   {args: []string{"--upstream.url=http://p", "--query.tenant-header=X Tenant"}, want: []string{"query.tenant_header", "X-Scope-OrgID"}},
		"a feature":           {file: "upstream: {url: http://p}\nenable_feature: [a]\n", want: []string{`enable_feature: unknown feature "a"`, "auto takes the upstream's"}},
		"two documents":       {file: "upstream: {url: http://p}\n---\nlog: {level: debug}\n", want: []string{"promwarp.yml: line 2: a second document"}},
		"connections":         {args: []string{"--upstream.url=http://p", "--web.max-connections=0"}, want: []string{"web.max_connections"}},
		"aggregate":           {file: "upstream: {url: http://p}\naggregates: [{name: a, state: {s: 0}, add: {s: v}, result: s}, {name: b, state: {s: 0}, add: {s: w}, result: s}]\n", want: []string{"aggregates: entry 2: ", `"b", add.s, line 1, column 1: there is no "w"`}},
		"aggregates alike":    {file: "upstream: {url: http://p}\naggregates: [{name: a, aliases: [median], state: {s: 0}, add: {s: v}, result: s}]\n", want: []string{"aggregates: entry 1: ", `there is an aggregate "median" already`}},
		"field twice":         {file: "aggregates: [{name: a, state: {s: 0, s: 1}, add: {s: v}, result: s}]\n", want: []string{"line 1", `"s"`}},
		"unknown part":        {file: "aggregates: [{name: a, combine: {s: 0}}]\n", want: []string{"line 1", `unknown key "combine"`}},
		"part of other kind":  {file: "aggregates: [{name: a, state: [1]}]\n", want: []string{"line 1", "mapping"}},
		"level":               {args: []string{"--upstream.url=http://p", "--log.level=loud"}, want: []string{"log.level", "loud"}},
		"format":              {args: []string{"--upstream.url=http://p", "--log.format=xml"}, want: []string{"log.format", "xml"}},
		"origin":              {args: []string{"--upstream.url=http://p", "--web.cors.origin=("}, want: []string{"web.cors.origin"}},
		"pages":               {args: []string{"--upstream.url=http://p", "--web.upstream-url=p"}, want: []string{"web.upstream_url", "http://prometheus:9090"}},
		"no file":             {args: []string{"--config.file=/none/at/all.yml"}, want: []string{"/none/at/all.yml"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.file != "" {
				c.args = append(c.args, "--config.file="+testfiles.Config(t, c.file))
			}
			s, err := parseFlags(t, c.args...).Load()
			if err == nil {
				err = s.Validate()
			}
			require.Error(t, err)
			for _, w := range c.want {
				require.ErrorContains(t, err, w)
			}
			require.NotContains(t, err.Error(), "main.")
		})
	}
}

// TestFrameLimit: an entry of remote_read bounds frames only if it says so.
func TestFrameLimit(t *testing.T) {
	for args, want := range map[string]uint64{
		"--upstream.url=http://p": 0,
		"--config.file=" + testfiles.Config(t, "remote_read: [{url: http://p}]"):                               0,
		"--config.file=" + testfiles.Config(t, "remote_read: [{url: http://p, chunked_read_limit: 50000000}]"): 50_000_000,
	} {
		s := load(t, args)
		src, err := onlySource(&s)
		require.NoError(t, err)
		require.Equal(t, want, src.Remote.ChunkedReadLimit, args)
	}
}

func TestSource(t *testing.T) {
	for given, want := range map[string][2]string{ // remote read, base
		"http://p:9090":                    {"http://p:9090/api/v1/read", "http://p:9090"},
		"p:9090":                           {"http://p:9090/api/v1/read", "http://p:9090"},
		"localhost:9590/prom":              {"http://localhost:9590/prom/api/v1/read", "http://localhost:9590/prom"},
		"http://p:9090/":                   {"http://p:9090/api/v1/read", "http://p:9090"},
		"https://p/tenant/prom/":           {"https://p/tenant/prom/api/v1/read", "https://p/tenant/prom"},
		"http://p:9090/prefix/api/v1/read": {"http://p:9090/prefix/api/v1/read", "http://p:9090/prefix"},
		"http://me:secret@p:9090":          {"http://me:secret@p:9090/api/v1/read", "http://me:secret@p:9090"},
	} {
		s := Settings{Upstream: UpstreamSettings{URL: given}}
		src, err := onlySource(&s)
		require.NoError(t, err)
		require.Equal(t, want[0], src.Remote.URL.String())
		require.Equal(t, want[1], src.Base.String())
		require.NotContains(t, src.String(), "secret")
	}
	for url, base := range map[string]string{"http://p/x/api/v1/read?t=1": "http://p/x", "http://p/custom/read": ""} {
		s := load(t, "--config.file="+testfiles.Config(t, "remote_read: [{url: '"+url+"'}]\n"))
		src, err := onlySource(&s)
		require.NoError(t, err)
		if base == "" {
			require.Nil(t, src.Base)
			continue
		}
		require.Equal(t, base, src.Base.String())
	}
}

// TestMemorySettings: what may be taken follows from the limit of the process where it is
// not given, and what does not add up is refused.
func TestMemorySettings(t *testing.T) {
	s := load(t, "--upstream.url=http://p", "--memory.limit=2GiB")
	require.NoError(t, s.Validate())
	require.Equal(t, []ByteSize{2 << 30, 512 << 20, 512 << 20, 256 << 20}, []ByteSize{s.Memory.Limit, s.Cache.HostBytes, s.Query.MaxMemory, s.Cache.DecodedBytes})
	s = load(t, "--upstream.url=http://p", "--config.file="+testfiles.Config(t, "{memory: {limit: 4GiB}, cache: {host_bytes: 1GiB}}"))
	require.Equal(t, []ByteSize{4 << 30, 1 << 30, 1 << 30}, []ByteSize{s.Memory.Limit, s.Cache.HostBytes, s.Query.MaxMemory})
	s = load(t, "--upstream.url=http://p", "--memory.limit=0")
	require.NoError(t, s.Validate())
	require.Equal(t, []ByteSize{0, unknownShare}, []ByteSize{s.Memory.Limit, s.Cache.HostBytes})
	require.InDelta(t, 0.9*float64(footprint.Usable("/")), float64(load(t).Memory.Limit), 10)
	for limit, results := range map[string]ByteSize{"64MiB": 8 << 20, "90MiB": 90 << 17, "2GiB": 64 << 20, "0": 64 << 20} {
		s = load(t, "--upstream.url=http://p", "--memory.limit="+limit)
		require.NoError(t, s.Validate(), "the defaults add up in any memory that is allowed")
		require.Equal(t, results, s.Cache.ResultsBytes, limit)
	}

	for text, want := range map[string]string{
		"--memory.limit=63MiB":                        "memory.limit must be at least 64MiB",
		"--memory.limit=1GiB --cache.host-bytes=1GiB": "cache.host_bytes and cache.results_bytes come to 1GiB64MiB, which is more than three quarters of memory.limit, 1GiB",
	} {
		s, err := parseFlags(t, append(strings.Fields(text), "--upstream.url=http://p")...).Load()
		if err == nil {
			err = s.Validate()
		}
		require.ErrorContains(t, err, want, text)
	}
}

// Samples on disk are of one source and of one who reads it.
func TestIdentity(t *testing.T) {
	same := []string{
		"url: http://p/api/v1/read",
		"url: http://p/api/v1/read, remote_timeout: 5s, name: x",
		"url: http://p/api/v1/read, tls_config: {insecure_skip_verify: true}",
	}
	seen := map[string]string{}
	for _, entry := range append(same,
		"url: http://q/api/v1/read",
		"url: 'http://me@p/api/v1/read'",
		"url: 'http://p/api/v1/read?tenant=a'",
		"url: http://p/api/v1/read, headers: {X-Scope-OrgID: a}",
		"url: http://p/api/v1/read, headers: {X-Scope-OrgID: b}",
		"url: http://p/api/v1/read, http_headers: {X-A: {values: [a]}, X-B: {secrets: [b]}}",
		"url: http://p/api/v1/read, http_headers: {X-A: {values: [a]}, X-B: {secrets: [c]}}",
		"url: http://p/api/v1/read, required_matchers: {job: a}",
		"url: http://p/api/v1/read, basic_auth: {username: a}",
		"url: http://p/api/v1/read, basic_auth: {username: b}",
		"url: http://p/api/v1/read, authorization: {credentials: a}",
		"url: http://p/api/v1/read, authorization: {credentials: b}",
		"url: http://p/api/v1/read, oauth2: {client_id: a, client_secret: x, token_url: http://t}",
	) {
		file := testfiles.Config(t, "remote_read: [{"+entry+"}]\n")
		for range 2 {
			s := load(t, "--config.file="+file)
			src, err := onlySource(&s)
			require.NoError(t, err)
			id, err := src.Identity()
			require.NoError(t, err)
			if slices.Contains(same, entry) {
				entry = same[0]
			}
			if other, ok := seen[id]; ok {
				require.Equal(t, entry, other)
			}
			seen[id] = entry
		}
	}
	require.Len(t, seen, 14)
	relative, err := Source{Dir: "d"}.Identity()
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(relative))
}

// TestGPUSettings: a list of devices may be one of YAML or a text, and what none can be is refused.
func TestGPUSettings(t *testing.T) {
	for text, want := range map[string][]int{"gpu: {devices: [0, 1]}": {0, 1}, "gpu: {devices: 3}": {3}, "gpu: {devices: '0, 2'}": {0, 2}, "gpu: {mode: off, library: ''}": nil} {
		s := load(t, "--upstream.url=http://p", "--config.file="+testfiles.Config(t, text))
		require.NoError(t, s.Validate(), text)
		devices, err := s.GPU.Ordinals()
		require.NoError(t, err)
		require.Equal(t, want, devices, text)
	}
	for text, want := range map[string]string{
		"gpu: {mode: on}":                "gpu.mode is on and must be one of auto, off, require; the default is auto. Whether",
		"gpu: {mode: always}":            "gpu.mode is always and must be",
		"gpu: {devices: a}":              `not the number of a GPU: "a"`,
		"gpu: {devices: [-1]}":           `not the number of a GPU: "-1"`,
		"gpu: {memory_fraction: 0}":      "gpu.memory_fraction is 0 and must be 0.001 to 1",
		"gpu: {memory_fraction: 1.5}":    "gpu.memory_fraction is 1.5 and must be",
		"gpu: {memory-fraction: 0.5}":    `unknown key "memory-fraction"`,
		"gpu: {library: '', mode: auto}": "gpu.library must name",
	} {
		s, err := parseFlags(t, "--upstream.url=http://p", "--config.file="+testfiles.Config(t, text)).Load()
		if err == nil {
			err = s.Validate()
		}
		require.ErrorContains(t, err, want, text)
	}
}

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
		"enable_feature: [a]", "? [a]\n: b", "\x00", "%YAML 9.9\n---\n", "query: {lookback_delta: auto}\n---\n",
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

// TestErrorsNameThePlace: an error about a configuration file names the line.
func TestErrorsNameThePlace(t *testing.T) {
	for text, want := range map[string]string{
		"web: {enable_pprof: true}\nquery: {max_samples: 1, timeout: 1}":                             `line 2: not a valid duration string: "1"; write one such as 30s, 5m or 1d`,
		"cache: {host_bytes: 9EiB}":                                                                  `line 1: not a size in bytes: "9EiB"`,
		"remote_read:\n- url: http://p/api/v1/read\n- url: http://q\n  remote_timeout: 1y2\ngpu: {}": `line 4: not a valid duration string: "1y2"`,
		"remote_read:\n- name: a\n  url: http://p\n- name: b\ngpu: {}":                               "line 4: url for remote_read is empty",
		"log: {level: info}\n\nweb: \x01":                                                            "line 3: control characters are not allowed",
		"log: {level: info}\ncache: &c {<<: *c}":                                                     "line 2: anchor 'c' value contains itself",
		"query: {}\ncaches: {}":                                                                      `line 2: unknown key "caches"`,
		"query:\n  max_samples: many\n  timeout: 1m\n  timeout: 2m\nqueries: {}": "line 2: `many` does not fit here, where a value of type whole number belongs\nFILE: " +
			"line 4: key \"timeout\" is given twice\nFILE: line 5: unknown key \"queries\"",
	} {
		file := testfiles.Config(t, text)
		_, err := readSettings(file)
		require.ErrorContains(t, err, file+": "+strings.ReplaceAll(want, "FILE", file))
	}
}
