package server

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
)

// TestWhichSourceCounts: where the command line and the file say what to read from, the log says which counts.
func TestWhichSourceCounts(t *testing.T) {
	var log testfiles.Log
	set := settingsOf(t, "--web.listen-address=127.0.0.1:0", "--upstream.url=127.0.0.1:1", "--config.file="+testfiles.Config(t, "remote_read: [{url: 'http://127.0.0.1:2'}]"))
	s, err := New(Config{Settings: set, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	s.Close()
	require.Contains(t, log.String(), "what the command line says to read from counts, and not upstream.url, tsdb.path and remote_read of ")
	require.Contains(t, log.String(), "upstream=http://127.0.0.1:1/")
}

// TestCheck: what a start refuses, a check refuses with the same words, the line, and what to do. It
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
		"no ca_file":          {tls + "  tls_config: {ca_file: none}\n", []string{"line 2: remote_read: entry 1: ", "none: no such file", "correct it"}},
		"a broken ca_file":    {tls + "  tls_config: {ca_file: broken}\n", []string{"line 2: remote_read: entry 1: ", "broken; correct it"}},
		"tracing, no ca_file": {from + "tracing:\n  endpoint: localhost:1\n  tls_config: {ca_file: none}\n", []string{"line 3: tracing: ", "none: no such file", "correct it"}},
		"tracing, a broken ca_file": {from + "tracing: {client_type: http, endpoint: 'localhost:1', tls_config: {ca_file: broken}}\n",
			[]string{"line 2: tracing: ", "broken; correct it"}},
		"no password_file": {"remote_read:\n- url: http://127.0.0.1:1/api/v1/read\n- url: http://127.0.0.1:2/api/v1/read\n  basic_auth: {username: me, password_file: none}\n",
			[]string{"line 3: remote_read: entry 2: ", "none: no such file", "correct it"}},
		"a header with a line's end": {"remote_read:\n- url: http://127.0.0.1:1/api/v1/read\n  headers: {X-Tenant: \"a\\r\\nb\"}\n",
			[]string{"line 2: remote_read: entry 1: ", `invalid header field value for "X-Tenant"; correct it`}},
		"no tsdb.path":            {"tsdb:\n  path: none\n", []string{"line 2: tsdb.path: ", "none: no such file", "give what"}},
		"a port too high":         {from + "web:\n  listen_address:\n  - 127.0.0.1:0\n  - 127.0.0.1:99999\n", []string{"line 5: web.listen_address: entry 2: ", "invalid port; write another"}},
		"no port":                 {from + "web: {listen_address: 'nonsense:port'}\n", []string{"line 2: web.listen_address: ", "unknown port; write another"}},
		"an address twice":        {from + "web: {listen_address: ['127.0.0.1:1234', 'localhost:1234']}\n", []string{"line 2: web.listen_address: entry 2: ", "an entry before"}},
		"all addresses and one":   {from + "web: {listen_address: [':1234', '127.0.0.1:1234']}\n", []string{"line 2: web.listen_address: entry 2: ", "an entry before"}},
		"a file as cache.path":    {from + "cache:\n  path: broken\n", []string{"line 3: cache.path ", "not a directory; name a directory"}},
		"below a file":            {from + "cache: {path: broken/x/y}\n", []string{"line 2: cache.path ", "not a directory; name a directory"}},
		"not to be written":       {from + "cache: {path: /proc/none/x}\n", []string{"line 2: cache.path ", "; name a directory"}},
		"a header with a space":   {from + "query: {tenant_header: 'X Tenant'}\n", []string{"line 2: query.tenant_header: ", "X-Scope-OrgID"}},
		"a header that none sees": {from + "query: {tenant_header: host}\n", []string{"line 2: query.tenant_header: ", "X-Scope-OrgID"}},
		"two things": {tls + "  tls_config: {ca_file: none}\nweb: {listen_address: 'nonsense:port'}\n",
			[]string{"line 4: web.listen_address: entry 1: ", "\n", "line 2: remote_read: entry 1: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			require.NoError(t, os.WriteFile("broken", []byte("no certificate"), 0o600))
			require.NoError(t, os.WriteFile("promwarp.yml", []byte(c.text), 0o600))
			f := &config.Flags{File: "promwarp.yml"}
			set, err := f.Load()
			require.NoError(t, err)
			err = f.Locate(Check(set))
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
			for l := range strings.Lines(err.Error()) {
				require.Regexp(t, `^promwarp\.yml: line \d+: `, l)
			}
			_, started := New(Config{Settings: set})
			require.ErrorAs(t, started, new(config.UsageError))
			first, _, _ := strings.Cut(f.Locate(started).Error(), "\n")
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
			var log testfiles.Log
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
