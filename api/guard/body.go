package guard

import (
	"context"
	"io"

	"github.com/promwarp/promwarp/internal/memory"
)

// leasedBody is a request's body that takes memory as it is read: whoever reads it keeps
// it, and some more for what it makes of it.
type leasedBody struct {
	io.ReadCloser
	ctx   context.Context
	lease *memory.Lease
	read  int64 // bytes
}

const (
	// smallBody is up to how many bytes a body takes no lease.
	smallBody = 64 << 10
	// bodyCost is how many bytes a byte of a body costs: itself, as a form's text, and as
	// parameters.
	bodyCost = 3
)

// Read implements io.Reader. It fails with an error of package memory where there is none.
func (b *leasedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if b.read > smallBody && n > 0 {
		if err := b.lease.Grow(b.ctx, bodyCost*int64(n)); err != nil {
			return n, err
		}
	}
	return n, err
}
