package resident

import (
	"cmp"
	"errors"
	"runtime"
	"sync"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
)

// Feeder copies chunks to the device for all jobs, one after the other on a stream
// of its own, so that waiting for the stream waits for all that was copied
// before. Memory that is not page-locked goes by way of some that is, a piece at a
// time; the cores fill several at once.
type Feeder struct {
	sync.Mutex // held while what belongs together is put on the stream

	dev    *cuda.Device
	Stream cuda.Stream
	pieces chan *piece

	pieceBytes int
}

// piece is page-locked memory.
type piece struct {
	buf  []byte
	done cuda.Event // it may be used again
}

// pieces is how many there are: more than there are cores filling them, so that
// copying and filling overlap.
const pieces = 32

// NewFeeder takes a stream, and page-locked memory of about that number of bytes, which h holds.
func NewFeeder(dev *cuda.Device, c *cuda.Context, h *cuda.Held, bytes int) *Feeder {
	f := &Feeder{dev: dev, Stream: h.Stream(c), pieces: make(chan *piece, pieces), pieceBytes: max(bytes/pieces, 4<<10)}
	for range pieces {
		f.pieces <- &piece{done: h.Event(c), buf: h.Host(c, f.pieceBytes)}
	}
	return f
}

// Transfer is a stretch of the host's memory and where it goes.
type Transfer struct {
	From []byte
	To   uint64 // device address
}

// load is what a piece is filled with: transfers right behind each other, but for
// less than 8 bytes.
type load []Transfer

func (l load) size() int {
	last := l[len(l)-1]
	return int(last.To-l[0].To) + len(last.From)
}

// loads cuts transfers, which are in the order of their addresses where they are
// near each other, into loads of at most size bytes.
func loads(ts []Transfer, size int) []load {
	var out []load
	var open load
	for _, t := range ts {
		if len(open) > 0 {
			end := open[0].To + uint64(open.size())
			if t.To < end || t.To-end >= 8 || int(t.To-open[0].To) >= size {
				out, open = append(out, open), nil
			}
		}
		for len(t.From) > 0 {
			room := size
			if len(open) > 0 {
				room -= int(t.To - open[0].To)
			}
			n := min(room, len(t.From))
			open = append(open, Transfer{t.From[:n], t.To})
			t.From, t.To = t.From[n:], t.To+uint64(n)
			if len(t.From) > 0 {
				out, open = append(out, open), nil
			}
		}
	}
	if len(open) > 0 {
		out = append(out, open)
	}
	return out
}

// Staged puts copies out of any memory on the stream. The memory may be used again
// when it returns.
func (f *Feeder) Staged(ts []Transfer) error {
	all := loads(ts, f.pieceBytes)
	errs := make([]error, len(all))
	parallel.While(runtime.GOMAXPROCS(0), len(all), func(_, k int) bool {
		p := <-f.pieces
		errs[k] = f.send(p, all[k])
		f.pieces <- p
		return errs[k] == nil
	})
	return errors.Join(errs...)
}

func (f *Feeder) send(p *piece, l load) error {
	if err := f.dev.Do(func(c *cuda.Context) error { return c.WaitReached(p.done) }); err != nil {
		return err
	}
	for _, t := range l {
		copy(p.buf[t.To-l[0].To:], t.From)
	}
	return f.dev.Do(func(c *cuda.Context) error {
		return cmp.Or(c.CopyIn(cuda.Pointer(l[0].To), p.buf[:l.size()], f.Stream), c.Record(p.done, f.Stream))
	})
}

// Forget gives the device memory of a selection's slabs to others, and of what is packed of their chunks,
// unless a job uses them.
func (s *Store) Forget(sel *selection.Selection) {
	of := map[uint64]bool{}
	for k := range sel.NumSlabs() {
		of[sel.Slab(k).ID()] = true
	}
	s.removeIf(func(b *Block) bool { return of[b.slab] || of[b.of] })
}
