package server

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dial opens a connection and sends text.
func dial(t *testing.T, s *Server, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	return c
}

// Connections beyond the limit wait; those on which nothing is asked make room.
func TestConnections(t *testing.T) {
	set := quickSettings()
	set.Web.MaxConnections = 4
	up := counting{wait: make(chan struct{}), at: make(chan struct{}, 10)}
	s, stop := runServer(t, Config{Settings: set, Upstream: up})
	for range 40 {
		dial(t, s, "")
	}
	start := time.Now()
	code, _ := fetch(t, http.MethodGet, s.URL()+"/-/healthy")
	require.Equal(t, http.StatusOK, code)
	t.Logf("answered %v after 40 silent connections", time.Since(start))

	// Those on which something is asked are left alone, so others wait.
	for range 4 {
		dial(t, s, "GET /api/v1/query?query=up&time=1 HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	require.Eventually(t, func() bool { return s.queues.queries.Running() == 4 }, 20*time.Second, 10*time.Millisecond)
	impatient := &http.Client{Timeout: 2 * minQuiet, Transport: &http.Transport{DisableKeepAlives: true}}
	_, err := impatient.Get(s.URL() + "/-/healthy")
	require.Error(t, err)
	require.Equal(t, 4, s.queues.queries.Running())
	close(up.wait)
	code, _ = fetch(t, http.MethodGet, s.URL()+"/-/healthy")
	require.Equal(t, http.StatusOK, code)
	require.NoError(t, stop())
	require.Empty(t, s.connections.slots)
}

// A header that drips, or is large, does not hold a connection for long.
func TestHeaders(t *testing.T) {
	set := quickSettings()
	set.Web.ReadTimeout = 200e6
	s, stop := runServer(t, Config{Settings: set, Upstream: counting{}})
	c := dial(t, s, "GET /-/healthy HTTP/1.1\r\nHost: x\r\nX: ")
	start := time.Now()
	_, _ = io.ReadAll(c)
	require.Less(t, time.Since(start), 5*time.Second)

	for name, header := range map[string]func(h http.Header){
		"large": func(h http.Header) { h.Set("X", strings.Repeat("x", 300<<10)) },
		"many": func(h http.Header) {
			for range 2000 {
				h.Add("X", "y")
			}
		},
	} {
		r, err := http.NewRequest(http.MethodGet, s.URL()+"/-/healthy", nil)
		require.NoError(t, err)
		header(r.Header)
		resp, err := client.Do(r)
		require.NoError(t, err, name)
		resp.Body.Close()
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode, name)
	}
	require.NoError(t, stop())
}
