package server

import (
	"cmp"
	"context"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/promwarp/promwarp/internal/queue"
)

// connections bounds how many connections are open at once, of all listeners together, and shares them
// fairly between addresses: one address alone does not get all, and connections that wait are let in by
// address in turn. While some wait, idle ones are closed, of the address that has most. When too many
// wait, the newest of the address with most are closed.
type connections struct {
	queue *queue.Queue
	// quiet holds by net.Conn the time.Time since when nothing is being asked. Each request
	// changes it twice: behind one mutex those of a thousand connections would wait in line.
	quiet sync.Map
}

const (
	// One address alone does not get one in spareConnections of all connections.
	spareConnections = 8
	// waitingConnections is how many times as many as may be open wait at most.
	waitingConnections = 2
	// longestWait is how long an accepted connection waits to be served before it is closed.
	longestWait = 30 * time.Second
	// minQuiet is how long nothing must have been asked on a connection that is closed for another.
	minQuiet = time.Second
	// lookEvery is how often such connections are looked for while others wait.
	lookEvery = 100 * time.Millisecond
)

// state is for http.Server.ConnState.
func (c *connections) state(conn net.Conn, s http.ConnState) {
	if s == http.StateNew || s == http.StateIdle {
		c.quiet.Store(conn, time.Now())
		return
	}
	c.quiet.Delete(conn)
}

// tend closes quiet connections until ctx ends: one for each that waits, or all. When a server shuts down
// net/http closes used connections, and would wait five seconds for the others: clients open some to
// have them at hand.
func (c *connections) tend(ctx context.Context, all bool) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if waiting := c.queue.Waiting(); all {
			c.closeQuiet(math.MaxInt)
		} else if waiting > 0 {
			c.closeQuiet(waiting)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// closeQuiet closes at most n of the connections that have been quiet for long enough, those of the
// addresses that hold most before others, and the longest quiet first.
func (c *connections) closeQuiet(n int) {
	type connection struct {
		conn  net.Conn
		since time.Time
		holds int
	}
	var quiet []connection
	holds, least := c.queue.Holds(), time.Now().Add(-minQuiet)
	c.quiet.Range(func(key, value any) bool {
		if conn, since := key.(net.Conn), value.(time.Time); since.Before(least) {
			quiet = append(quiet, connection{conn, since, holds[addressOf(conn)]})
		}
		return true
	})
	slices.SortFunc(quiet, func(a, b connection) int { return cmp.Or(cmp.Compare(b.holds, a.holds), a.since.Compare(b.since)) })
	for _, q := range quiet[:min(n, len(quiet))] {
		// It is left alone if something has been asked on it since.
		if c.quiet.CompareAndDelete(q.conn, q.since) {
			go q.conn.Close() // which may say goodbye to the client first
		}
	}
}

// addressOf is whose a connection is: its remote address, of IPv6 the network of 64 bits, which
// is what one client has.
func addressOf(conn net.Conn) string {
	remote := conn.RemoteAddr().String()
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	if a := at.Addr().Unmap(); a.Is4() {
		return a.String()
	}
	network, _ := at.Addr().WithZone("").Prefix(64)
	return network.String()
}

// limit returns l, of which connections count. It accepts until it is closed.
func (c *connections) limit(l net.Listener) net.Listener {
	ctx, closed := context.WithCancel(context.Background())
	limited := &limitedListener{Listener: l, all: c, ready: make(chan net.Conn), failed: make(chan error), ctx: ctx, closed: closed}
	go limited.accept()
	return limited
}

type limitedListener struct {
	net.Listener
	all    *connections
	ready  chan net.Conn // Accept returns either
	failed chan error
	ctx    context.Context // ends when the listener is closed
	closed context.CancelFunc
}

// accept accepts connections and has each of them wait for its turn.
func (l *limitedListener) accept() {
	for l.ctx.Err() == nil {
		conn, err := l.Listener.Accept()
		if err == nil {
			go l.admit(conn)
			continue
		}
		select {
		case l.failed <- err:
		case <-l.ctx.Done():
		}
	}
}

// admit hands out a connection when it may be open, or closes it.
func (l *limitedListener) admit(conn net.Conn) {
	slot, err := l.all.queue.Enter(l.ctx, addressOf(conn))
	if err != nil {
		conn.Close()
		return
	}
	conn = &countedConn{Conn: conn, slot: slot}
	select {
	case l.ready <- conn:
	case <-l.ctx.Done():
		conn.Close()
	}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case err := <-l.failed:
		return nil, err
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.closed()
	return l.Listener.Close()
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	slot *queue.Slot
}

// CloseWrite is what net/http closes with where a client still sends, so that it can read
// the answer first.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.slot.Leave()
	return err
}
