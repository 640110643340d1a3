package guard

import (
	"context"
	"io"
	"net/http"

	"github.com/promwarp/promwarp/internal/memory"
)

// leasedBody is a request's body that takes memory as it is read: whoever reads it keeps
// it, and some more for what it makes of it.
type leasedBody struct {
	io.ReadCloser
	ctx      context.Context
	lease    *memory.Lease
	read     int64               // bytes
	tooLarge *http.MaxBytesError // by its Content-Length, else nil
	header   http.Header         // of the answer
}

const (
	// smallBody is up to how many bytes a body takes no lease.
	smallBody = 64 << 10
	// bodyCost is how many bytes a byte of a body costs: itself, as a form's text, and as
	// parameters.
	bodyCost = 3
)

// Read implements io.Reader. It fails with an error of package memory where there is none, and at
// once where the whole body would be too large: net/http then closes the connection instead of
// waiting for the rest.
func (b *leasedBody) Read(p []byte) (int, error) {
	if b.tooLarge != nil {
		b.header.Set("Connection", "close")
		return 0, b.tooLarge
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if b.read > smallBody && n > 0 {
		if err := b.lease.Grow(b.ctx, bodyCost*int64(n)); err != nil {
			return n, err
		}
	}
	return n, err
}
