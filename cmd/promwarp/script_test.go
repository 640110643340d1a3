package main

import (
	"bytes"
	"context"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"testing"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/testfiles"
)

var update = flag.Bool("update", false, "write what scripts and pages expect anew")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"promwarp": main})
}

// TestScripts runs the commands in testdata/scripts, each against a promwarp of its own at $URL, which
// reads from the Prometheus at $PROMETHEUS, whose samples are also in the data directory $DATA. $STALLED never
// answers, $LOCKED wants a password,
// $WRONG changes a value, $PAGE is a server of another kind.
func TestScripts(t *testing.T) {
	data := testfiles.DataDirectory(t)
	db, err := tsdb.Open(testfiles.DataDirectory(t), promslog.NewNopLogger(), nil, tsdb.DefaultOptions(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	prometheus := startDemoPrometheus(l, db, promslog.NewNopLogger())
	t.Cleanup(prometheus.Close)

	serve := func(h http.HandlerFunc) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	stop := make(chan struct{})
	stalled := serve(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	})
	t.Cleanup(func() { close(stop) })
	locked := serve(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "sesame" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		prometheus.server.Handler.ServeHTTP(w, r)
	})
	wrong := serve(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		prometheus.server.Handler.ServeHTTP(answer, r)
		w.WriteHeader(answer.Code)
		_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte(`[60,"3"]`), []byte(`[60,"4"]`)))
	})
	page := serve(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) })

	testscript.Run(t, testscript.Params{
		Dir: "testdata/scripts", UpdateScripts: *update, RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			set := demoSettings("127.0.0.1:0", prometheus.url)
			set.Web.EnableAdminAPI = true
			set.GPU.Mode = config.GPUOff
			srv, err := server.New(server.Config{Settings: set})
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- srv.Run(ctx) }()
			e.Defer(func() {
				cancel()
				require.NoError(t, <-ended)
			})
			for name, value := range map[string]string{
				"DATA": data, "URL": srv.URL(), "PROMETHEUS": prometheus.url, "STALLED": stalled, "LOCKED": locked, "PAGE": page, "WRONG": wrong,
				"PROMWARP_URL": srv.URL(), "TZ": "UTC",
			} {
				e.Setenv(name, value)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"masked": masked},
	})
}

var (
	maskedTime = regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s)\b`)
	maskedURL  = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
)

// masked writes the last output to a file, with times and addresses masked.
func masked(ts *testscript.TestScript, _ bool, args []string) {
	text := maskedTime.ReplaceAllString(ts.ReadFile("stdout"), "T")
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(maskedURL.ReplaceAllString(text, "URL")), 0o666))
}
