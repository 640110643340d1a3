package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
	"github.com/promwarp/promwarp/plan"
)

// parseFlags gives args to a command with all settings.
func parseFlags(t *testing.T, args ...string) *Flags {
	t.Helper()
	f := &Flags{}
	app := kingpin.New("test", "")
	f.AddAll(app)
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

func TestDefaults(t *testing.T) {
	s := load(t, "--upstream.url=http://p:9090")
	require.NoError(t, s.Validate())
	want := Default()
	want.Upstream.URL = "http://p:9090"
	want.Divide()
	require.Equal(t, want, s)
	require.Equal(t, Addresses{"127.0.0.1:9201"}, s.Web.ListenAddress)
	require.Positive(t, s.Cache.HostBytes)
}

const fullFile = `
upstream:
  url: http://meta:9090/prefix
  max_bytes: 1GiB
  max_frame_bytes: 1048576
  concurrency: 7
  retention: 15d
remote_read:
  - url: http://p:9090/api/v1/read
    headers: {X-Scope-OrgID: me}
    basic_auth:
      username: me
      password_file: secrets/password
query: {timeout: 10s, max_samples: 5, max_memory: 1MiB, max_concurrency: 6, max_depth: 7, max_length: 8, max_regexp_size: 9, max_selectors: 10, max_items: 11, lookback_delta: 1m, evaluation_interval: 15s, exact: bits, max_lists: 5, max_queue: 7, max_queue_time: 8s, tenant_header: X-Scope-OrgID, custom_aggregates: true}
aggregates: [{name: total, state: {s: 0}, add: {s: s + v}, result: s}]
cache: {host_bytes: 4GiB, decoded_bytes: 1GiB, results_bytes: 1MiB, path: kept, disk_bytes: 5GiB, fresh: 1h, recheck: 4m, out_of_order_window: 2h, max_age: 3h, prefetch_requests: 2, prefetch_bytes: 3MiB, prefetch_concurrency: 4}
web:
  listen_address: ["127.0.0.1:1", "127.0.0.1:2"]
  config_file: web.yml
  enable_pprof: true
  enable_lifecycle: true
  enable_admin_api: true
  ready_needs_upstream: true
  shutdown_timeout: 3s
  cors_origin: https?://dash
  upstream_url: https://prometheus.example/
  read_timeout: 4s
  write_timeout: 5s
  max_connections: 6
  max_header_bytes: 7KiB
  max_body_bytes: 8KiB
log: {level: debug, format: json}
storage: {remote_read_sample_limit: 1, remote_read_stream_sample_limit: 2, remote_read_concurrent_limit: 3, remote_read_max_bytes_in_frame: 4KiB, remote_read_max_queries: 5, remote_read_chunks: xor}
read: {reader_lookback: 7m}
`

// onlySource is the one source that s names.
func onlySource(s *Settings) (Source, error) {
	all, err := s.Sources()
	if len(all) != 1 {
		return Source{}, errors.Join(err, fmt.Errorf("%d sources", len(all)))
	}
	return all[0], err
}

func TestFile(t *testing.T) {
	file := testfiles.Config(t, fullFile)
	dir := filepath.Dir(file)
	s := load(t, "--config.file="+file)
	require.Equal(t, ByteSize(1<<30), s.Upstream.MaxBytes)
	require.Equal(t, ByteSize(1<<20), s.Upstream.MaxFrameBytes)
	require.Equal(t, 7, s.Upstream.Concurrency)
	require.Equal(t, querySettings{model.Duration(10 * time.Second), 5, 1 << 20, 6, AutoDuration(time.Minute), AutoDuration(15 * time.Second), plan.Bits, QueueSettings{5, 7, model.Duration(8 * time.Second), "X-Scope-OrgID"}, TextSettings{7, 8, 9, 10, 11}, true}, s.Query)
	require.Equal(t, CacheSettings{4 << 30, 1 << 30, 1 << 20, filepath.Join(dir, "kept"), 5 << 30, model.Duration(time.Hour), model.Duration(4 * time.Minute), model.Duration(2 * time.Hour), model.Duration(3 * time.Hour), 2, 3 << 20, 4}, s.Cache)
	require.Equal(t, model.Duration(15*24*time.Hour), s.Upstream.Retention)
	require.Equal(t, webSettings{Addresses{"127.0.0.1:1", "127.0.0.1:2"}, filepath.Join(dir, "web.yml"), true, true, true, true, model.Duration(3 * time.Second), "https?://dash", "https://prometheus.example/",
		model.Duration(4 * time.Second), model.Duration(5 * time.Second), 6, 7 << 10, 8 << 10}, s.Web)
	require.Equal(t, logSettings{Level: "debug", Format: "json"}, s.Log)
	require.Equal(t, storageSettings{1, 2, 3, 4 << 10, 5, "xor"}, s.Storage)
	require.Equal(t, remoteReaders{model.Duration(7 * time.Minute)}, s.Readers)
	require.Equal(t, filepath.Join(dir, "secrets/password"), s.RemoteRead[0].HTTPClientConfig.BasicAuth.PasswordFile)
	require.NoError(t, s.Validate())

	src, err := onlySource(&s)
	require.NoError(t, err)
	require.Equal(t, "http://p:9090/api/v1/read", src.Remote.URL.String())
	require.Equal(t, "http://meta:9090/prefix", src.Base.String())

	// One address may stand alone, and a data directory is the file's.
	s = load(t, "--config.file="+testfiles.Config(t, "web: {listen_address: ':9'}\ntsdb: {path: data}\n"))
	require.Equal(t, Addresses{":9"}, s.Web.ListenAddress)
	require.Equal(t, s.Cache.HostBytes/2, s.Cache.Decoded(), "half, if nothing says otherwise")
	require.True(t, filepath.IsAbs(s.TSDB.Path))
}

func TestCommandLineWins(t *testing.T) {
	file := testfiles.Config(t, fullFile)
	s := load(t, "--config.file="+file, "--query.timeout=1m", "--cache.host-bytes=512MiB", "--web.listen-address=:3", "--web.listen-address=:4",
		"--no-web.enable-pprof", "--no-web.enable-admin-api", "--cache.max-age=0s", "--cache.out-of-order-window=1m", "--upstream.retention=1d", "--log.level=warn", "--web.config.file=rel.yml", "--upstream.concurrency=9")
	require.Equal(t, model.Duration(time.Minute), s.Query.Timeout)
	require.Equal(t, 5, s.Query.MaxSamples)
	require.Equal(t, ByteSize(512<<20), s.Cache.HostBytes)
	require.Equal(t, Addresses{":3", ":4"}, s.Web.ListenAddress)
	require.False(t, s.Web.EnablePprof)
	require.False(t, s.Web.EnableAdminAPI)
	require.Zero(t, s.Cache.MaxAge)
	require.Equal(t, model.Duration(time.Minute), s.Cache.OutOfOrderWindow)
	require.Equal(t, model.Duration(24*time.Hour), s.Upstream.Retention)
	require.Equal(t, "warn", s.Log.Level)
	require.Equal(t, "rel.yml", s.Web.ConfigFile)
	require.Equal(t, 9, s.Upstream.Concurrency)

	s = load(t, "--config.file="+file, "--storage.remote.read-sample-limit=0", "--storage.remote.read-stream-sample-limit=20", "--storage.remote.read-concurrent-limit=30",
		"--storage.remote.read-max-bytes-in-frame=40", "--storage.remote.read-max-queries=50", "--storage.remote.read-chunks=as-is", "--read.reader-lookback=1m")
	require.Equal(t, model.Duration(time.Minute), s.Readers.Lookback)
	require.Equal(t, storageSettings{0, 20, 30, 40, 50, "as-is"}, s.Storage)
	require.Equal(t, "as-is", s.Values()["storage.remote.read-chunks"])
	var o api.Options
	s.Storage.Apply(&o)
	require.Equal(t, api.Options{ReadSamples: -1, ReadStreamSamples: 20, ReadFrameBytes: 40, ReadQueries: 50, ReadChunks: "as-is"}, o)

	// A source replaces the file's.
	s = load(t, "--config.file="+file, "--tsdb.path=d")
	src, err := onlySource(&s)
	require.NoError(t, err)
	require.Equal(t, Source{Dir: "d", Setting: "tsdb.path"}, src)
	s = load(t, "--config.file="+file, "--upstream.url=http://other")
	src, err = onlySource(&s)
	require.NoError(t, err)
	require.Equal(t, "http://other/api/v1/read", src.Remote.URL.String())
	require.Equal(t, "http://other", src.Base.String())
	require.Equal(t, "what the command line says to read from counts, and not upstream.url, tsdb.path and remote_read of "+file, s.Replaced)
	require.Empty(t, load(t, "--config.file="+file).Replaced)
	require.Empty(t, load(t, "--config.file="+testfiles.Config(t, "log: {level: info}"), "--upstream.url=http://other").Replaced)
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
		"bad duration":        {file: "query: {timeout: soon}\n", want: []string{`"soon"`}},
		"bad size":            {file: "cache: {host_bytes: much}\n", want: []string{`"much"`, "4GiB"}},
		"negative results":    {args: []string{"--upstream.url=http://p", "--cache.results-bytes=-1"}, want: []string{"cache.results_bytes"}},
		"negative cache":      {args: []string{"--upstream.url=http://p", "--cache.host-bytes=-1"}, want: []string{"cache.host_bytes"}},
		"more decoded":        {args: []string{"--upstream.url=http://p", "--cache.host-bytes=1GiB", "--cache.decoded-bytes=2GiB"}, want: []string{"cache.decoded_bytes", "cache.host_bytes"}},
		"disk alone":          {args: []string{"--upstream.url=http://p", "--cache.host-bytes=0", "--cache.path=d"}, want: []string{"cache.path", "cache.host_bytes"}},
		"no disk":             {args: []string{"--upstream.url=http://p", "--cache.disk-bytes=0"}, want: []string{"cache.disk_bytes"}},
		"no lookback":         {file: "read: {reader_lookback: 0s}\n", args: []string{"--upstream.url=http://p"}, want: []string{"read.reader_lookback", "5m"}},
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
		"two documents":       {file: "upstream: {url: http://p}\n---\nlog: {level: debug}\n", want: []string{"promwarp.yml: line 2: a second document"}},
		"timeout 0":           {args: []string{"--upstream.url=http://p", "--query.timeout=0s"}, want: []string{"query.timeout"}},
		"concurrency 0":       {args: []string{"--upstream.url=http://p", "--query.max-concurrency=0"}, want: []string{"query.max_concurrency"}},
		"queue":               {args: []string{"--upstream.url=http://p", "--query.max-queue=-1"}, want: []string{"query.max_queue", "0 lets"}},
		"lists":               {args: []string{"--upstream.url=http://p", "--query.max-lists=-1"}, want: []string{"query.max_lists", "0 sets no limit"}},
		"queue time":          {args: []string{"--upstream.url=http://p", "--query.max-queue-time=0s"}, want: []string{"query.max_queue_time"}},
		"read timeout":        {args: []string{"--upstream.url=http://p", "--web.read-timeout=0s"}, want: []string{"web.read_timeout"}},
		"write timeout":       {args: []string{"--upstream.url=http://p", "--web.write-timeout=0s"}, want: []string{"web.write_timeout"}},
		"connections":         {args: []string{"--upstream.url=http://p", "--web.max-connections=0"}, want: []string{"web.max_connections"}},
		"header":              {args: []string{"--upstream.url=http://p", "--web.max-header-bytes=1"}, want: []string{"web.max_header_bytes"}},
		"body":                {args: []string{"--upstream.url=http://p", "--web.max-body-bytes=0"}, want: []string{"web.max_body_bytes"}},
		"depth 0":             {args: []string{"--upstream.url=http://p", "--query.max-depth=0"}, want: []string{"query.max_depth", "2500"}},
		"length 0":            {args: []string{"--upstream.url=http://p", "--query.max-length=0"}, want: []string{"query.max_length", "1048576"}},
		"regexps of no size":  {file: "upstream: {url: http://p}\nquery: {max_regexp_size: -1}\n", want: []string{"query.max_regexp_size", "524288"}},
		"aggregate":           {file: "upstream: {url: http://p}\naggregates: [{name: a, state: {s: 0}, add: {s: v}, result: s}, {name: b, state: {s: 0}, add: {s: w}, result: s}]\n", want: []string{"aggregates: entry 2: ", `"b", add.s, line 1, column 1: there is no "w"`}},
		"aggregates alike":    {file: "upstream: {url: http://p}\naggregates: [{name: a, aliases: [median], state: {s: 0}, add: {s: v}, result: s}]\n", want: []string{"aggregates: entry 1: ", `there is an aggregate "median" already`}},
		"field twice":         {file: "aggregates: [{name: a, state: {s: 0, s: 1}, add: {s: v}, result: s}]\n", want: []string{"line 1", `"s"`}},
		"unknown part":        {file: "aggregates: [{name: a, combine: {s: 0}}]\n", want: []string{"line 1", `unknown key "combine"`}},
		"part of other kind":  {file: "aggregates: [{name: a, state: [1]}]\n", want: []string{"line 1", "mapping"}},
		"level":               {args: []string{"--upstream.url=http://p", "--log.level=loud"}, want: []string{"log.level", "loud"}},
		"format":              {args: []string{"--upstream.url=http://p", "--log.format=xml"}, want: []string{"log.format", "xml"}},
		"read samples":        {args: []string{"--upstream.url=http://p", "--storage.remote.read-sample-limit=-1"}, want: []string{"storage.remote_read_sample_limit"}},
		"setting is gone":     {file: "storage: {remote_read_share_window: 5s}\n", want: []string{"remote_read_share_window"}},
		"read frames":         {args: []string{"--upstream.url=http://p", "--storage.remote.read-max-bytes-in-frame=0"}, want: []string{"storage.remote_read_max_bytes_in_frame"}},
		"read chunks":         {file: "storage: {remote_read_chunks: all}\n", want: []string{`"all"`, "auto, xor and as-is"}},
		"origin":              {args: []string{"--upstream.url=http://p", "--web.cors.origin=("}, want: []string{"web.cors_origin"}},
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

// TestComparedPart: a part of all queries may be none, as it is by default.
func TestComparedPart(t *testing.T) {
	for text, want := range map[string]part{"0": 0, "0.25": 0.25, "1": 1} {
		require.Equal(t, want, load(t, "--upstream.url=http://p", "--compare.fraction="+text).Compare.Fraction)
		s := load(t, "--upstream.url=http://p", "--config.file="+testfiles.Config(t, "compare: {fraction: "+text+"}"))
		require.Equal(t, want, s.Compare.Fraction)
		require.NoError(t, s.Validate())
	}
	for _, text := range []string{"-0.1", "1.01", "NaN", "x", ""} {
		_, err := parseFlags(t, "--upstream.url=http://p", "--config.file="+testfiles.Config(t, "compare: {fraction: '"+text+"'}")).Load()
		require.ErrorContains(t, err, "write a number from 0 to 1", text)
	}
}

// TestMemorySettings: what may be taken follows from the limit of the process where it is
// not given, and what does not add up is refused.
func TestMemorySettings(t *testing.T) {
	s := load(t, "--upstream.url=http://p", "--memory.limit=2GiB")
	require.NoError(t, s.Validate())
	require.Equal(t, []ByteSize{2 << 30, 512 << 20, 512 << 20, 256 << 20}, []ByteSize{s.Memory.Limit, s.Cache.HostBytes, s.Query.MaxMemory, s.Cache.Decoded()})
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
