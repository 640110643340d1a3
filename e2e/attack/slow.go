package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

var slowAttacks = []attack{
	{
		name: "stalled readers", what: "has 150 clients ask for all samples of the data and read no more than the first bytes",
		holds: "each is cut off within --web.write-timeout, at most 1 s later",
		run: func(ctx context.Context, e *env) verdict {
			return stay(ctx, e, staying{n: e.count(150), flag: "web.write-timeout", begin: stalledReader, left: connected})
		},
	},
	{
		name: "dripping bodies", apart: true, what: "has 300 clients send a form of 100 kB at one byte a second",
		holds: "each is cut off within --web.read-timeout, at most 1 s later",
		run: func(ctx context.Context, e *env) verdict {
			return stay(ctx, e, staying{n: e.count(300), flag: "web.read-timeout", begin: func(e *env, c net.Conn) error {
				_, err := fmt.Fprintf(c, "POST /api/v1/query HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: 100000\r\n\r\nquery=", e.target.addr, form)
				return err
			}, drip: "u", left: unanswered})
		},
	},
	{
		name: "dripping headers", apart: true, what: "has 300 clients send one byte of a header a second",
		holds: "each is cut off within --web.read-timeout or 15 s, whichever is less",
		run: func(ctx context.Context, e *env) verdict {
			return stay(ctx, e, staying{n: e.count(300), flag: "web.read-timeout", most: 15 * time.Second, begin: func(_ *env, c net.Conn) error {
				_, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nX-A: ")
				return err
			}, drip: "u", left: unanswered})
		},
	},
}

// staying are clients that keep a connection busy without getting on.
type staying struct {
	n     int
	flag  string        // that says after what time they are cut off
	most  time.Duration // unless this is less; 0 is not
	begin func(e *env, c net.Conn) error
	drip  string // what is sent each second
	left  func(c net.Conn) bool
}

// stay has the clients come, waits until they should be gone, and counts those that are left.
func stay(ctx context.Context, e *env, s staying) (v verdict) {
	limit, known := e.flag(s.flag, 20*time.Second)
	if s.most > 0 {
		limit, known = min(limit, s.most), true
	}
	if e.short || e.mixed {
		limit = min(limit, 20*time.Second)
	}
	conns := together(ctx, s.n, s.n, func(ctx context.Context, _ int) net.Conn {
		c, err := e.target.dial(ctx)
		if err != nil {
			return nil
		}
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetReadBuffer(4 << 10)
		}
		if err := s.begin(e, c); err != nil {
			c.Close()
			return nil
		}
		return c
	})
	begun := time.Now()
	open := 0
	for _, c := range conns {
		if c != nil {
			open++
			defer c.Close()
		}
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for time.Since(begun) < limit+time.Second && ctx.Err() == nil {
		<-tick.C
		for _, c := range conns {
			if c != nil && s.drip != "" {
				_ = c.SetWriteDeadline(time.Now().Add(time.Second))
				_, _ = io.WriteString(c, s.drip)
			}
		}
	}
	if ctx.Err() != nil {
		v.figures = "ended early"
		return v
	}
	left := 0
	for _, l := range together(ctx, s.n, len(conns), func(_ context.Context, i int) bool { return conns[i] != nil && s.left(conns[i]) }) {
		if l {
			left++
		}
	}
	v.figures = fmt.Sprintf("%d connections, %d left after %s", open, left, short(time.Since(begun)))
	switch {
	case !known:
		v.breaks("%s; the server has no --%s", v.figures, s.flag)
	case left > 0:
		v.breaks("%d of %d were not cut off within %s", left, open, limit)
	}
	return v
}

// stalledReader asks for much, waits until an answer begins, and takes one byte of it.
func stalledReader(e *env, c net.Conn) error {
	form := e.over(`{__name__=~".+"}`, time.Minute)
	if _, err := fmt.Fprintf(c, "GET /api/v1/query_range?%s HTTP/1.1\r\nHost: %s\r\n\r\n", form.Encode(), e.target.addr); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(2*e.timeout + 30*time.Second))
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

// connected says whether the server's end of a connection is open. It reads nothing, as what was sent
// before the server closed it would take long to arrive in a small window. The server must be on this
// machine, and that a Linux.
func connected(c net.Conn) bool {
	server, ok := c.RemoteAddr().(*net.TCPAddr)
	client, same := c.LocalAddr().(*net.TCPAddr)
	if !ok || !same {
		return true
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if b, err := os.ReadFile(table); err == nil && established(string(b), server.Port, client.Port) {
			return true
		}
	}
	return false
}

// established says whether a table of the kernel's has an open connection between these ports.
func established(table string, local, remote int) bool {
	ends := func(field string, port int) bool { return strings.HasSuffix(field, fmt.Sprintf(":%04X", port)) }
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 3 && ends(f[1], local) && ends(f[2], remote) && f[3] == "01" {
			return true
		}
	}
	return false
}

// unanswered says whether the connection is still open, with or without an answer on it. One
// that was answered is as good as closed: the client has been told.
func unanswered(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
	_, err := http.ReadResponse(bufio.NewReader(c), nil)
	return err != nil && isTimeout(err)
}

func isTimeout(err error) bool {
	n, ok := err.(net.Error)
	return ok && n.Timeout()
}
