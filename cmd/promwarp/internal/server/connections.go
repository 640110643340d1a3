package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/internal/queue"
)

// connections bounds how many connections are open at once, of all listeners together, and
// shares them fairly between addresses: one address alone does not get all, those that wait are
// let in by address in turn, and where all are taken, one on which nothing is being asked, of the
// address that has most, is closed for one that waits. Of those that wait the newest of the address
// with most are closed when they are too many.
type connections struct {
	most  int
	queue *queue.Queue

	// quiet holds by net.Conn the time.Time since when nothing is being asked. Each request
	// changes it twice: behind one mutex those of a thousand connections would wait in line.
	quiet   sync.Map
	looking atomic.Bool // whether somebody looks for connections to close
}

const (
	// spareConnections is which part of all connections, one in so many, one address alone does
	// not get.
	spareConnections = 8
	// waitingConnections is how many times as many as may be open wait at most.
	waitingConnections = 2
	// longestWait is how long an accepted connection waits to be served before it is closed.
	longestWait = 30 * time.Second
	// minQuiet is how long nothing must have been asked on a connection that is closed for
	// another, unless its address has more connections than that of the other.
	minQuiet = time.Second
	// lookEvery is how often such connections are looked for while others wait.
	lookEvery = 100 * time.Millisecond
)

func newConnections(most int) *connections {
	return &connections{most: most, queue: queue.New(queue.Limits{
		Slots: most, Spare: most / spareConnections, MaxWaiting: waitingConnections * most, MaxWait: longestWait,
	}, nil)}
}

// state is for http.Server.ConnState.
func (c *connections) state(conn net.Conn, s http.ConnState) {
	if s == http.StateNew || s == http.StateIdle {
		c.quiet.Store(conn, time.Now())
		return
	}
	c.quiet.Delete(conn)
}

// room closes a connection on which nothing is being asked for one from an address, if all are
// taken, and others have more than that one has.
func (c *connections) room(address string) {
	if c.queue.Running() < c.most {
		return
	}
	holds := c.queue.Holds()
	for _, n := range holds {
		if n > holds[address]+1 {
			c.closeQuiet(holds, holds[address]+1, 0)
			return
		}
	}
}

// closeQuiet closes one of the connections on which nothing was asked for so long, of the address
// that holds most, if those are more than so many.
func (c *connections) closeQuiet(holds map[string]int, more int, quiet time.Duration) {
	least := time.Now().Add(-quiet)
	var longest net.Conn
	var since time.Time
	c.quiet.Range(func(key, value any) bool {
		conn, at := key.(net.Conn), value.(time.Time)
		if at.After(least) {
			return true
		}
		if n := holds[addressOf(conn)]; n > more || n == more && longest != nil && at.Before(since) {
			longest, since, more = conn, at, n
		}
		return true
	})
	// It is left alone if something has been asked on it since.
	if longest != nil && c.quiet.CompareAndDelete(longest, since) {
		holds[addressOf(longest)]--
		go longest.Close() // which may say goodbye to the client first
	}
}

// look closes connections that have been quiet for long, one for each that waits, as long as
// there are such.
func (c *connections) look() {
	if c.queue.Waiting() == 0 || !c.looking.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(lookEvery, func() {
		holds := c.queue.Holds()
		for range c.queue.Waiting() {
			c.closeQuiet(holds, 0, minQuiet)
		}
		c.looking.Store(false)
		c.look()
	})
}

// closeUnused closes connections on which nothing has been asked for a while, until ctx ends. When a
// server shuts down it closes those that have been used, and would wait five seconds for the others:
// clients open some to have them at hand.
func (c *connections) closeUnused(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		least := time.Now().Add(-minQuiet)
		c.quiet.Range(func(conn, since any) bool {
			if since.(time.Time).Before(least) && c.quiet.CompareAndDelete(conn, since) {
				go conn.(net.Conn).Close() // which may say goodbye to the client first
			}
			return true
		})
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
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
	limited := &limitedListener{Listener: l, all: c, ready: make(chan accepted), ctx: ctx, closed: closed}
	go limited.accept()
	return limited
}

type limitedListener struct {
	net.Listener
	all    *connections
	ready  chan accepted
	ctx    context.Context // ends when the listener is closed
	closed context.CancelFunc
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// accept accepts connections and has each of them wait for its turn.
func (l *limitedListener) accept() {
	for l.ctx.Err() == nil {
		conn, err := l.Listener.Accept()
		if err != nil {
			l.hand(accepted{err: err})
			continue
		}
		go l.admit(conn)
	}
}

// admit hands out a connection when it may be open, or closes it.
func (l *limitedListener) admit(conn net.Conn) {
	address := addressOf(conn)
	room := time.AfterFunc(time.Millisecond, func() { l.all.room(address) }) // once it waits
	look := time.AfterFunc(lookEvery, l.all.look)
	slot, err := l.all.queue.Enter(l.ctx, address)
	room.Stop()
	look.Stop()
	if err != nil {
		conn.Close()
		return
	}
	l.hand(accepted{conn: &countedConn{Conn: conn, slot: slot}})
}

// hand waits until Accept returns a.
func (l *limitedListener) hand(a accepted) {
	select {
	case l.ready <- a:
	case <-l.ctx.Done():
		if a.conn != nil {
			a.conn.Close()
		}
	}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.ready:
		return a.conn, a.err
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
