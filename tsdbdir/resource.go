package tsdbdir

import "sync"

// resource is something that several users share; the last to release it
// closes it.
type resource struct {
	mu    sync.Mutex
	users int
	close func()
}

// newResource returns a resource with one user.
func newResource(close func()) *resource { return &resource{users: 1, close: close} }

// hold adds a user. It reports false when the resource is closed already.
func (r *resource) hold() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == 0 {
		return false
	}
	r.users++
	return true
}

// release takes a user away.
func (r *resource) release() {
	r.mu.Lock()
	r.users--
	last := r.users == 0
	r.mu.Unlock()
	if last {
		r.close()
	}
}
