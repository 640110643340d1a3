package server

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// connections bounds how many connections are open at once, of all listeners together.
// Beyond that nothing is accepted, so clients wait. One on which nothing is being asked
// is closed for one that waits, so that idle connections do not lock others out.
type connections struct {
	slots chan struct{} // one element for each that is open or being accepted

	// quiet holds by net.Conn the time.Time since when nothing is being asked. Each request
	// changes it twice: behind one mutex those of a thousand connections would wait in line.
	quiet sync.Map
}

const (
	// minQuiet is how long nothing must have been asked on a connection that is closed for
	// another.
	minQuiet = time.Second
	// lookEvery is how often such connections are looked for while others wait.
	lookEvery = 100 * time.Millisecond
)

func newConnections(max int) *connections {
	return &connections{slots: make(chan struct{}, max)}
}

// state is for http.Server.ConnState.
func (c *connections) state(conn net.Conn, s http.ConnState) {
	if s == http.StateNew || s == http.StateIdle {
		c.quiet.Store(conn, time.Now())
		return
	}
	c.quiet.Delete(conn)
}

// closeQuiet closes the connection that has been quiet for longest.
func (c *connections) closeQuiet() {
	var longest net.Conn
	least := time.Now().Add(-minQuiet)
	c.quiet.Range(func(conn, since any) bool {
		if since := since.(time.Time); !since.After(least) {
			longest, least = conn.(net.Conn), since
		}
		return true
	})
	// It is left alone if something has been asked on it since.
	if longest != nil && c.quiet.CompareAndDelete(longest, least) {
		go longest.Close() // which may say goodbye to the client first
	}
}

// limit returns l, of which connections count.
func (c *connections) limit(l net.Listener) net.Listener {
	return &limitedListener{Listener: l, all: c, closed: make(chan struct{})}
}

type limitedListener struct {
	net.Listener
	all    *connections
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	if !l.enter() {
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.all.slots
		return nil, err
	}
	return &countedConn{Conn: conn, all: l.all}, nil
}

// enter waits until one more connection may be open. It reports false if the listener is
// closed before.
func (l *limitedListener) enter() bool {
	select {
	case l.all.slots <- struct{}{}:
		return true
	default:
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		l.all.closeQuiet()
		select {
		case l.all.slots <- struct{}{}:
			return true
		case <-l.closed:
			return false
		case <-look.C:
		}
	}
}

// Close implements net.Listener.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// countedConn is a connection that counts until it is closed.
type countedConn struct {
	net.Conn
	all  *connections
	once sync.Once
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
	c.once.Do(func() { <-c.all.slots })
	return err
}
