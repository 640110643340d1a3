package server

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/internal/testlog"
)

// TestWhichSourceCounts: where the command line and the file say what to read from, the log says which counts.
func TestWhichSourceCounts(t *testing.T) {
	var log testlog.Log
	set := settingsOf(t, "--web.listen-address=127.0.0.1:0", "--upstream.url=127.0.0.1:1", "--config.file="+testfiles.Config(t, "remote_read: [{url: 'http://127.0.0.1:2'}]"))
	s, err := New(Config{Settings: set, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	s.Close()
	require.Contains(t, log.String(), "what the command line says to read from counts, and not upstream.url, tsdb.path, remote_read and stores of ")
	require.Contains(t, log.String(), "upstream=http://127.0.0.1:1/")
}

// TestCheck: what a start refuses, a check refuses with the same words, and what to do. It
// leaves nothing behind, and does not mind that a promwarp runs.
func TestCheck(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	const from = "upstream: {url: 'http://127.0.0.1:1'}\n"
	const tls = "remote_read:\n- url: https://127.0.0.1:1/api/v1/read\n"
	for name, c := range map[string]struct {
		text string
		want []string // in the error; none if nothing is wrong
	}{
		"nothing":             {text: from + "cache: {path: new/directory}\nweb: {listen_address: '" + busy.Addr().String() + "'}\ntracing: {endpoint: 'localhost:1'}\n"},
		"any port, twice":     {text: from + "web: {listen_address: ['127.0.0.1:0', '127.0.0.1:0']}\n"},
		"no ca_file":          {tls + "  tls_config: {ca_file: none}\n", []string{"remote_read: entry 1: ", "none: no such file", "correct it"}},
		"a broken ca_file":    {tls + "  tls_config: {ca_file: broken}\n", []string{"remote_read: entry 1: ", "broken; correct it"}},
		"tracing, no ca_file": {from + "tracing:\n  endpoint: localhost:1\n  tls_config: {ca_file: none}\n", []string{"tracing: ", "none: no such file", "correct it"}},
		"tracing, a broken ca_file": {from + "tracing: {client_type: http, endpoint: 'localhost:1', tls_config: {ca_file: broken}}\n",
			[]string{"tracing: ", "broken; correct it"}},
		"no password_file": {"remote_read:\n- url: http://127.0.0.1:1/api/v1/read\n- url: http://127.0.0.1:2/api/v1/read\n  basic_auth: {username: me, password_file: none}\n",
			[]string{"remote_read: entry 2: ", "none: no such file", "correct it"}},
		"a header with a line's end": {"remote_read:\n- url: http://127.0.0.1:1/api/v1/read\n  headers: {X-Tenant: \"a\\r\\nb\"}\n",
			[]string{"remote_read: entry 1: ", `invalid header field value for "X-Tenant"; correct it`}},
		"no tsdb.path":            {"tsdb:\n  path: none\n", []string{"tsdb.path: ", "none: no such file", "give what"}},
		"a port too high":         {from + "web:\n  listen_address:\n  - 127.0.0.1:0\n  - 127.0.0.1:99999\n", []string{"web.listen_address: entry 2: ", "invalid port; write another"}},
		"no port":                 {from + "web: {listen_address: 'nonsense:port'}\n", []string{"web.listen_address: ", "unknown port; write another"}},
		"an address twice":        {from + "web: {listen_address: ['127.0.0.1:1234', 'localhost:1234']}\n", []string{"web.listen_address: entry 2: ", "an entry before"}},
		"all addresses and one":   {from + "web: {listen_address: [':1234', '127.0.0.1:1234']}\n", []string{"web.listen_address: entry 2: ", "an entry before"}},
		"a file as cache.path":    {from + "cache:\n  path: broken\n", []string{"cache.path ", "not a directory; name a directory"}},
		"below a file":            {from + "cache: {path: broken/x/y}\n", []string{"cache.path ", "not a directory; name a directory"}},
		"not to be written":       {from + "cache: {path: /proc/none/x}\n", []string{"cache.path ", "; name a directory"}},
		"fewer requests than 0":   {"upstream: {url: 'http://127.0.0.1:1', concurrency: -1}\n", []string{"upstream.concurrency is -1 and must be 0 to 10000"}},
		"requests without end":    {"upstream: {url: 'http://127.0.0.1:1', concurrency: 9223372036854775807}\n", []string{"and must be 0 to 10000"}},
		"a header with a space":   {from + "query: {tenant_header: 'X Tenant'}\n", []string{"query.tenant_header: ", "X-Scope-OrgID"}},
		"a header that none sees": {from + "query: {tenant_header: host}\n", []string{"query.tenant_header: ", "X-Scope-OrgID"}},
		"two things": {tls + "  tls_config: {ca_file: none}\nweb: {listen_address: 'nonsense:port'}\n",
			[]string{"web.listen_address: entry 1: ", "\n", "remote_read: entry 1: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			require.NoError(t, os.WriteFile("broken", []byte("no certificate"), 0o600))
			require.NoError(t, os.WriteFile("promwarp.yml", []byte(c.text), 0o600))
			f := &config.Flags{File: "promwarp.yml"}
			set, err := f.Load()
			require.NoError(t, err)
			err = Check(set)
			left, globErr := filepath.Glob("*")
			require.NoError(t, globErr)
			require.Equal(t, []string{"broken", "promwarp.yml"}, left)
			if len(c.want) == 0 {
				require.NoError(t, err)
				return
			}
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			_, started := New(Config{Settings: set})
			require.ErrorAs(t, started, new(config.UsageError))
			first, _, _ := strings.Cut(started.Error(), "\n")
			// Names of files that are written to see whether that is possible differ.
			if cut := strings.Index(first, "open "); strings.Contains(first, "cache.path") && cut > 0 {
				first = first[:cut]
			}
			require.Contains(t, err.Error(), first)
		})
	}
}

// TestSecretsStaySecret: credentials of an upstream, wherever they are configured, come out
// at no door and in no line of the log, while it works and while it fails.
func TestSecretsStaySecret(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"fails": func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no: "+r.URL.String()+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Api-Key"), http.StatusBadGateway)
		},
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://u:hidden-other@127.0.0.1:1/?token=hidden-there", http.StatusTemporaryRedirect)
		},
		"drops the connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			up := httptest.NewUnstartedServer(answer)
			up.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
			up.Start()
			defer up.Close()
			host := strings.TrimPrefix(up.URL, "http://")
			var log testlog.Log
			set := settingsOf(t, "--web.listen-address=127.0.0.1:0", "--cache.host-bytes=1MiB", "--upstream.external-labels=none", "--config.file="+testfiles.Config(t, `
remote_read:
- url: http://me:hidden-password@`+host+`/api/v1/read?token=hidden-token
  api_url: http://me:hidden-password@`+host+`/?token=hidden-token
  headers: {X-Api-Key: hidden-header}
- url: http://`+host+`/other/read?key=hidden-key
  authorization: {credentials: hidden-bearer}
  on_failure: warn
`))
			s, stop := runServer(t, Config{Settings: set, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			base := "http://" + s.listeners[0].Addr().String()
			said := ""
			for _, path := range []string{
				"/api/v1/query?query=up&time=1000", "/api/v1/query_range?query=rate(up[5m])&start=1000&end=2000&step=10", "/explain?query=up",
				"/explain?query=up&analyze=true", "/metrics", "/api/v1/status/config", "/api/v1/status/flags", "/api/v1/status/runtimeinfo",
				"/api/v1/labels", "/api/v1/series?match[]=up", "/api/v1/metadata", "/api/v1/targets", "/-/ready", "/query", "/graph", "/", "/api/v1/notifications",
			} {
				_, body := fetch(t, http.MethodGet, base+path)
				require.NotContains(t, body, "hidden-", path)
				said += body
			}
			require.NoError(t, stop())
			require.NotContains(t, log.String(), "hidden-")
			require.Contains(t, said, host, "it is named, though")
		})
	}
}

// TestSecretsInSettingsThatAreWrong: an error about a URL does not quote its password.
func TestSecretsInSettingsThatAreWrong(t *testing.T) {
	for _, u := range []string{"http://me:hidden-1@host:port/", "ftp://me:hidden-1@host/?token=hidden-2", "http://me:hidden-1@%zz/?token=hidden-2"} {
		set := config.Default()
		set.Upstream.URL = u
		_, err := set.Sources()
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hidden-")
		require.NotContains(t, set.Values()["upstream.url"], "hidden-")
	}
}

// TestServeOnGPU: a server asks the GPU where it is told to, and says so. What it page-locks leaves the most of
// little memory to queries.
func TestServeOnGPU(t *testing.T) {
	h := cudatest.Control(t)
	h.Configure("devices=2,memory=1073741824")
	var log testlog.Log
	set := quickSettings()
	set.EnableFeature = config.List{"promql-per-step-stats"}
	set.Memory.Limit = 256 << 20
	set.GPU = config.GPUSettings{Mode: config.GPURequire, MemoryFraction: 0.05, Library: cudatest.Library(t)}
	cfg := Config{Settings: set, Upstream: counting{}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	s, stop := runServer(t, cfg)
	answers(t, s, "/api/v1/query?query=sum(up)&time=1&executor=gpu&strict=true&stats=all", `"value":[1,"1"]`, `"totalQueryableSamplesPerStep":[[1,1]]`)
	answers(t, s, "/api/v1/query?query=sum(up)&time=1", `"value":[1,"1"]`)
	body := answers(t, s, "/metrics", "promwarp_gpu_jobs_total{gpu=", `promwarp_gpu_usable{gpu="1"} 1`)
	require.Less(t, counted(t, body, `promwarp_memory_bytes{part="page_locked"}`), 40<<20)
	// Where the second query ran is by what this machine measured a moment ago.
	onGPU := counted(t, body, `promwarp_plan_nodes_total{executor="gpu",kind="aggregate"}`)
	require.Positive(t, onGPU)
	require.Equal(t, 2, onGPU+counted(t, body, `promwarp_gpu_declined_total{reason="the cores are expected to be faster"}`))
	_, body = fetch(t, "GET", s.URL()+"/explain?query=sum(up)&time=1&executor=gpu&analyze=true")
	var x struct {
		Data struct {
			Plan struct {
				Executor string
				Choice   struct {
					Took int64 `json:"took_us"`
					GPU  *int
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &x))
	require.Equal(t, "gpu", x.Data.Plan.Executor)
	require.Positive(t, x.Data.Plan.Choice.Took)
	require.NotNil(t, x.Data.Plan.Choice.GPU)
	require.NoError(t, stop())
	require.Equal(t, 1, strings.Count(log.String(), "measured what the GPU and the cores do"))
	require.Zero(t, h.Held())
}

// counted returns a series' value in a page of metrics, 0 where it is not there.
func counted(t *testing.T, page, series string) int {
	_, rest, found := strings.Cut(page, "\n"+series+" ")
	if !found {
		return 0
	}
	text, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(text, 64)
	require.NoError(t, err)
	return int(n)
}

// TestServeWithoutGPU: without a driver a server runs unless a GPU is required, and
// says why it uses none.
func TestServeWithoutGPU(t *testing.T) {
	var log testlog.Log
	set := quickSettings()
	set.GPU.Library = "libnothing.so.1"
	cfg := Config{Settings: set, Upstream: counting{}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	s, stop := runServer(t, cfg)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "no GPU is used") }, 5*time.Second, time.Millisecond)
	answers(t, s, "/api/v1/query?query=sum(up)&time=1&executor=gpu", "not evaluated on a GPU: sum(up): no NVIDIA driver: libnothing.so.1")
	code, body := fetch(t, "GET", s.URL()+"/explain?query=sum(up)%2Bsum(rate(up[5m]))&time=1")
	require.Equal(t, 200, code)
	require.Equal(t, 1, strings.Count(body, "no NVIDIA driver"), body)
	require.Contains(t, body, `"gpu":"no NVIDIA driver: libnothing.so.1`)
	code, body = fetch(t, "GET", s.URL()+"/api/v1/query?query=sum(up)&time=1&executor=gpu&strict=true")
	require.Equal(t, 422, code)
	require.Contains(t, body, "executor=gpu with strict=true")
	require.NoError(t, stop())

	cfg.Settings.GPU.Mode = config.GPUOff
	s, stop = runServer(t, cfg)
	answers(t, s, "/api/v1/query?query=sum(up)&time=1&executor=gpu", "no GPU is to be used (--gpu.mode=off)")
	require.NoError(t, stop())

	cfg.Settings.GPU.Mode = config.GPURequire
	_, err := New(cfg)
	require.ErrorContains(t, err, "no GPU, which --gpu.mode=require asks for: no NVIDIA driver: libnothing.so.1")
	h := cudatest.Control(t)
	cfg.Settings.GPU.Library, cfg.Settings.GPU.Devices = cudatest.Library(t), config.List{"0", "3"}
	_, err = New(cfg)
	require.ErrorContains(t, err, "there is no GPU 3: the driver finds 1, numbered from 0")
	h.Configure("capability=70")
	cfg.Settings.GPU.Devices = nil
	_, err = New(cfg)
	require.ErrorContains(t, err, "its compute capability is 7.0, and the kernels need 7.5")
}
