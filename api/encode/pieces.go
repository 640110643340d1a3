package encode

import (
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/internal/yield"
)

// minParallel is the weight from which on an answer is encoded on several
// cores.
const minParallel = pieceWeight

// writeRows writes all pieces in order.
func (a *Answer) writeRows(w io.Writer) (int64, error) {
	cores := a.cores
	if cores == 0 {
		cores = runtime.GOMAXPROCS(0)
	}
	if cores = min(cores, a.pieces()); cores < 2 || a.weight < minParallel {
		return a.writeOnOne(w)
	}
	return a.writeOnMany(w, cores)
}

// writeOnOne encodes and writes one piece after the other.
func (a *Answer) writeOnOne(w io.Writer) (int64, error) {
	buf := newBuffer()
	defer buf.release()
	var written int64
	var point yield.Point
	for i := range a.pieces() {
		point.Pass()
		buf.b = a.appendPiece(buf.b[:0], i)
		point.Leave() // the client may be slow
		n, err := w.Write(buf.b)
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// encoded is a piece that was encoded, or what the encoding panicked with.
type encoded struct {
	buf      *buffer
	panicked any
}

// writeOnMany has workers encode pieces, at most two for each ahead of the one
// that is being written. It returns when all workers have ended, so that the
// rows are no longer read.
func (a *Answer) writeOnMany(w io.Writer, workers int) (written int64, err error) {
	ahead := 2 * workers
	// A worker takes a ticket, then the next piece. Pieces are written in
	// order and a ticket comes back with each, so piece i+ahead is not begun
	// before piece i is taken to be written, and both can use the same channel.
	tickets := make(chan struct{}, ahead)
	done := make([]chan encoded, ahead)
	for i := range done {
		done[i] = make(chan encoded, 1)
		tickets <- struct{}{}
	}
	var next atomic.Int64
	quit := make(chan struct{})
	var wg sync.WaitGroup
	defer func() {
		close(quit)
		wg.Wait()
		for _, c := range done {
			select {
			case e := <-c:
				e.buf.release()
			default:
			}
		}
	}()
	for range workers {
		wg.Go(func() {
			var point yield.Point
			for {
				point.Leave() // the client may be slow
				if int(next.Load()) >= a.pieces() {
					return // and need not be told
				}
				select {
				case <-quit:
					return
				case <-tickets:
				}
				i := int(next.Add(1)) - 1
				if i >= a.pieces() {
					return
				}
				point.Pass()
				done[i%ahead] <- a.encode(i)
			}
		})
	}
	for i := 0; i < a.pieces(); {
		e := <-done[i%ahead]
		if e.panicked != nil {
			e.buf.release()
			panic(e.panicked)
		}
		i++
		tickets <- struct{}{}
		for i < a.pieces() && len(e.buf.b) < together && e.join(done[i%ahead]) {
			i++
			tickets <- struct{}{}
		}
		n, err := w.Write(e.buf.b)
		e.buf.release()
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// together is how many bytes are written at once where so many are encoded: each write takes two
// calls of the kernel, and small pieces take longer to be written than to be encoded.
const together = 256 << 10

// join appends the next piece to e, if it is encoded.
func (e *encoded) join(done chan encoded) bool {
	select {
	case next := <-done:
		if next.panicked != nil {
			done <- next // to be taken by itself
			return false
		}
		e.buf.b = append(e.buf.b, next.buf.b...)
		next.buf.release()
		return true
	default:
		return false
	}
}

// encode encodes a piece. A panic must reach the goroutine that answers the request, which survives
// it.
func (a *Answer) encode(i int) (e encoded) {
	e.buf = newBuffer()
	defer func() { e.panicked = recover() }()
	e.buf.b = a.appendPiece(e.buf.b[:0], i)
	return e
}
