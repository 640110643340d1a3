package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// countingWriter notes the largest write.
type countingWriter struct {
	*httptest.ResponseRecorder
	largest int
}

func (w *countingWriter) Write(p []byte) (int, error) {
	w.largest = max(w.largest, len(p))
	return w.ResponseRecorder.Write(p)
}

func TestLargeAnswersAreStreamed(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, manySeries()) })
	for _, path := range []string{
		"/api/v1/query_range?query=m&start=0&end=1200&step=1",
		"/query?query=m&start=0&end=1200&step=1&limit=50",
	} {
		w := &countingWriter{ResponseRecorder: httptest.NewRecorder()}
		a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.Greater(t, w.Body.Len(), 1_000_000)
		require.Less(t, w.largest, w.Body.Len()/4)
		require.True(t, strings.HasPrefix(w.Body.String(), `{"status":"success"`) && strings.HasSuffix(w.Body.String(), "}"))

		w = &countingWriter{ResponseRecorder: httptest.NewRecorder()}
		path = strings.Replace(path, "/api/v1/query_range", "/query", 1)
		a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path+"&format=csv", nil))
		require.Equal(t, http.StatusOK, w.Code)
		require.LessOrEqual(t, w.largest, 64<<10)
		require.True(t, strings.HasPrefix(w.Body.String(), "__name__,"))
		require.Greater(t, strings.Count(w.Body.String(), "\n"), 50_000)
	}
}

// closing is a client that goes away.
type closing struct {
	*httptest.ResponseRecorder
	left int
}

func (w *closing) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

func TestClientGoneWhileStreaming(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, manySeries()) })
	for _, left := range []int{0, 100, 500_000} {
		w := &closing{httptest.NewRecorder(), left}
		a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/query?query=m&start=0&end=1200&step=1", nil))
		require.Equal(t, http.StatusOK, w.Code)
	}
}

func TestConcurrentStreams(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Queryable = newStorage(t, manySeries()) })
	var wg sync.WaitGroup
	for i := range 4 {
		path := fmt.Sprintf("/query?query=m%%2b%d&start=0&end=1200&step=1", i)
		want := httptest.NewRecorder()
		prometheusAPI(a, "none").ServeHTTP(want, httptest.NewRequest(http.MethodGet, strings.Replace(path, "/query", "/api/v1/query_range", 1), nil))
		wg.Go(func() {
			for range 4 {
				got := httptest.NewRecorder()
				a.ServeHTTP(got, httptest.NewRequest(http.MethodGet, path, nil))
				if got.Body.String() != want.Body.String() {
					t.Errorf("%s: answers differ", path)
				}
			}
		})
	}
	wg.Wait()
}
