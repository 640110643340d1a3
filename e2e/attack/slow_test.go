package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Which connections a server has cut is seen though nothing is read from them.
func TestConnected(t *testing.T) {
	const size = 32 << 20 // more than sockets hold
	for name, cut := range map[string]bool{"a server that waits": false, "a server that cuts": true} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				c := http.NewResponseController(w)
				if cut {
					_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
				}
				_, _ = io.CopyN(w, endless{}, size)
			}))
			defer s.Close()
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
			_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			_, err = io.ReadFull(conn, make([]byte, 1))
			require.NoError(t, err)
			time.Sleep(600 * time.Millisecond)
			require.Equal(t, !cut, connected(conn))
		})
	}
}
