// Package refcount counts the users of something that the last of them closes.
package refcount

import "sync"

// Count is the number of users of something. It is safe for concurrent use.
type Count struct {
	mu    sync.Mutex
	users int
	close func()
}

// New returns a count of one user. The release of the last one calls close; nil
// stands for nothing.
func New(close func()) *Count { return &Count{users: 1, close: close} }

// OnClose replaces what the last release calls.
func (c *Count) OnClose(close func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.close = close
}

// Hold adds a user. It reports false when the last one has gone already.
func (c *Count) Hold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == 0 {
		return false
	}
	c.users++
	return true
}

// Release takes a user away.
func (c *Count) Release() {
	c.mu.Lock()
	c.users--
	last, f := c.users == 0, c.close
	c.mu.Unlock()
	if last && f != nil {
		f()
	}
}
