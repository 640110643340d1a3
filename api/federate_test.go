package api

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/remoteread"
)

func TestFederateFails(t *testing.T) {
	a := newTestAPI(t, nil)
	for _, path := range []string{"/federate?match[]=sum(", "/federate?match[]=", "/federate?match[]=a;b"} {
		w := do(t, a, httptest.NewRequest("GET", path, nil))
		require.Equal(t, 400, w.Code, path)
		require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
	}
	a = newTestAPI(t, func(o *Options) { o.Queryable = failing{err: errors.New("a corrupt chunk")} })
	w := do(t, a, httptest.NewRequest("GET", "/federate?match[]=up", nil))
	require.Equal(t, 500, w.Code)
	require.Contains(t, w.Body.String(), "a corrupt chunk")
	a = newTestAPI(t, func(o *Options) {
		o.Queryable = failing{err: &remoteread.Error{Upstream: "http://up", Err: errors.New("refused")}}
	})
	w = do(t, a, httptest.NewRequest("GET", "/federate?match[]=up", nil))
	require.Equal(t, 502, w.Code)
}

// One upstream answers itself; one that has no such door is answered for.
func TestFederateForwarded(t *testing.T) {
	s := teststorage.New(t)
	app := s.Appender(t.Context())
	_, err := app.Append(0, labels.FromStrings("__name__", "b", "i", "1"), time.Now().UnixMilli()-58_000, 3)
	require.NoError(t, err)
	require.NoError(t, app.Commit())
	code := 200
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "theirs 1\n")
	})
	a := u.api(t, func(o *Options) { o.Queryable = s })
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/federate?match[]=b", nil)
		r.Header.Set("Accept", "text/plain")
		r.Header.Set("Authorization", "Bearer client")
		return do(t, a, r)
	}
	w := ask()
	require.Equal(t, "theirs 1\n", w.Body.String())
	require.Equal(t, "/prefix/federate?match[]=b", u.got.RequestURI)
	require.Empty(t, u.got.Header.Get("Authorization"))
	require.Empty(t, w.Header().Values("Vary"))
	code = 400
	require.Equal(t, 400, ask().Code)
	code = 404
	w = ask()
	require.Equal(t, 200, w.Code)
	require.Regexp(t, `^# TYPE b untyped\nb\{i="1",instance=""\} 3 \d+\n$`, w.Body.String())
	code = 401
	require.Equal(t, 502, ask().Code)
}
