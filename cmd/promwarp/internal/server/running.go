package server

import "context"

// Running is a server that serves in a goroutine of its own.
type Running struct {
	// Done is closed once the server has stopped.
	Done   <-chan struct{}
	cancel context.CancelFunc
	err    error // of Run, once Done is closed
}

// Start serves until ctx is done or Stop is called. Requests may be sent at once.
func (s *Server) Start(ctx context.Context) *Running {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	r := &Running{Done: done, cancel: cancel}
	go func() {
		defer close(done)
		r.err = s.Run(ctx)
	}()
	return r
}

// Stop ends the server, waits for it, and returns its error.
func (r *Running) Stop() error {
	r.cancel()
	<-r.Done
	return r.err
}
