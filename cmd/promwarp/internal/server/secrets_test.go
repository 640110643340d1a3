package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
)

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
