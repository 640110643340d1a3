package answer

import (
	"context"
	"io"
	"testing"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/selection"
	"go.uber.org/goleak"

	"github.com/promwarp/promwarp/remoteread/wire/wiretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Those of wiretest that nearly every test uses.
var (
	marshal, frames, wireSeries = wiretest.Marshal, wiretest.Frames, wiretest.Series
	floats                      = wiretest.Floats
	chunksOf                    = wiretest.Chunks
)

// sameString reports whether a and b are the same in memory, not only equal.
func sameString(a, b labels.Labels) bool {
	var x, y *byte
	_ = a.Validate(func(l labels.Label) error { x = unsafe.StringData(l.Name); return errDiffer })
	_ = b.Validate(func(l labels.Label) error { y = unsafe.StringData(l.Name); return errDiffer })
	return x == y
}

// within is a reader whose limits are so many bytes.
func within(limit int64) *Reader { return &Reader{MaxFrame: limit, MaxAnswer: limit, MaxBytes: limit} }

// uncounted is a question that nobody counts the answer of.
func uncounted() *Part { return &Part{Count: func(int64, int64) error { return nil }} }

// readOne reads an answer to the one question p, asked in ctx.
func (a *Reader) readOne(ctx context.Context, r io.Reader, streamed bool, p *Part) (*selection.Selection, error) {
	p.Ctx = ctx
	_, err := a.Read(r, streamed, []*Part{p})
	return p.Sel, err
}
