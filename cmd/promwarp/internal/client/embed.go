package client

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
)

// Embed starts a promwarp inside this process, which nobody else can ask: it listens on no address,
// keeps nothing on disk, and fetches nothing ahead. The contexts of its requests come from ctx. Stop
// ends it.
func Embed(ctx context.Context, set config.Settings, logger *slog.Logger) (c *Client, stop func(), err error) {
	set.Cache.Path, set.Cache.PrefetchRequests = "", 0
	set.Web = config.Default().Web
	set.Web.ShutdownTimeout = 0 // nothing is under way when it ends
	l := &pipes{opened: make(chan net.Conn), closed: make(chan struct{})}
	srv, err := server.New(server.Config{Settings: set, Logger: logger, Listener: l, Context: ctx})
	if err != nil {
		return nil, nil, err
	}
	running := srv.Start(ctx)
	transport := &http.Transport{
		DisableCompression: true,
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) },
	}
	c = &Client{base: &url.URL{Scheme: "http", Host: "promwarp"}, http: http.Client{Transport: transport}}
	return c, func() {
		transport.CloseIdleConnections()
		_ = running.Stop() // whoever asked has the error
	}, nil
}

// pipes is a listener whose connections stay inside the process.
type pipes struct {
	opened chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// dial opens a connection.
func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.opened <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.opened:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return p }

// Network implements net.Addr.
func (p *pipes) Network() string { return "pipe" }

// String implements net.Addr.
func (p *pipes) String() string { return "this process" }
