package server

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
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

// Connections beyond the limit wait; those on which nothing is asked make room, at once for
// another address.
func TestConnections(t *testing.T) {
	set := quickSettings()
	set.Web.MaxConnections = 4
	up := counting{wait: make(chan struct{}), at: make(chan struct{}, 10)}
	s, stop := runServer(t, Config{Settings: set, Upstream: up})
	for range 10 {
		dial(t, s, "")
	}
	require.Eventually(t, func() bool { return s.connections.queue.Waiting() == 6 }, 20*time.Second, time.Millisecond)
	start := time.Now()
	require.NoError(t, askFrom(s, "127.0.0.2", time.Minute))
	t.Logf("another address was answered %v after 10 silent connections", time.Since(start))
	require.NoError(t, askFrom(s, "127.0.0.1", time.Minute))
	t.Logf("the same address was answered after %v", time.Since(start))

	// Those on which something is asked are left alone, so others wait.
	for range 4 {
		dial(t, s, "GET /api/v1/query?query=up&time=1 HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	require.Eventually(t, func() bool { return s.queues.queries.Running() == 4 }, 20*time.Second, 10*time.Millisecond)
	require.Error(t, askFrom(s, "127.0.0.2", 2*minQuiet))
	require.Equal(t, 4, s.queues.queries.Running())
	close(up.wait)
	require.NoError(t, askFrom(s, "127.0.0.2", time.Minute))
	require.NoError(t, stop())
	require.Zero(t, s.connections.queue.Running())
	require.Zero(t, s.connections.queue.Waiting())
}

// One address alone does not get all connections, and of its own that wait the newest are closed.
func TestConnectionsOfOneAddress(t *testing.T) {
	set := quickSettings()
	set.Web.MaxConnections = 8
	up := counting{wait: make(chan struct{}), at: make(chan struct{}, 20)}
	s, _ := runServer(t, Config{Settings: set, Upstream: up})
	for range 7 {
		dial(t, s, "GET /api/v1/query?query=up&time=1 HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	require.Eventually(t, func() bool { return s.queues.queries.Running() == 7 }, 20*time.Second, time.Millisecond)
	require.Error(t, askFrom(s, "127.0.0.1", minQuiet/4))
	require.NoError(t, askFrom(s, "127.0.0.2", time.Minute))

	var last net.Conn
	for range 8*waitingConnections + 1 {
		last = dial(t, s, "")
	}
	require.NoError(t, last.SetReadDeadline(time.Now().Add(time.Minute)))
	_, err := last.Read(make([]byte, 1))
	require.Error(t, err)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded), err)
	close(up.wait)
}

// askFrom asks whether the server is healthy, on a new connection from an address.
func askFrom(s *Server, address string, patience time.Duration) error {
	from := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	c := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, DialContext: from.DialContext}}
	resp, err := c.Get(s.URL() + "/-/healthy")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// TestAddressOf: an IPv6 client has a network.
func TestAddressOf(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.1:5": "10.0.0.1", "[::ffff:10.0.0.1]:5": "10.0.0.1", "[2001:db8:1:2:3::4]:5": "2001:db8:1:2::/64", "[fe80::1%eth0]:5": "fe80::/64", "@": "@",
	} {
		require.Equal(t, want, addressOf(remoteConn{remote: remote}), remote)
	}
}

// remoteConn is a connection from somewhere.
type remoteConn struct {
	net.Conn
	remote string
}

func (c remoteConn) RemoteAddr() net.Addr { return remoteAddr(c.remote) }

type remoteAddr string

func (remoteAddr) Network() string  { return "tcp" }
func (a remoteAddr) String() string { return string(a) }

// A header that drips, or is large, does not hold a connection for long.
func TestHeaders(t *testing.T) {
	set := quickSettings()
	set.Web.ReadTimeout = 200e6
	s, _ := runServer(t, Config{Settings: set, Upstream: counting{}})
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
		resp, err := browser.Do(r)
		require.NoError(t, err, name)
		resp.Body.Close()
		require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode, name)
	}
}

// TestUnusedConnections: shutting down does not wait for connections on which nothing was asked.
func TestUnusedConnections(t *testing.T) {
	s, stop := runServer(t, Config{Settings: quickSettings(), Upstream: counting{}})
	for range 3 {
		dial(t, s, "")
	}
	require.Eventually(t, func() bool { return s.connections.queue.Running() == 3 }, 20*time.Second, time.Millisecond)
	began := time.Now()
	require.NoError(t, stop())
	require.Less(t, time.Since(began), 4*time.Second, "net/http waits for five")
	require.Zero(t, s.connections.queue.Running())
}
