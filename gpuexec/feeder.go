package gpuexec

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/internal/parallel"
)

// feeder copies chunks to the device for all jobs, one after the other on a stream
// of its own, so that whoever waits for the stream waits for all that was copied
// before. Memory that is not page-locked goes by way of some that is, a piece at a
// time; the cores fill several at once.
type feeder struct {
	dev    *cuda.Device
	mu     sync.Mutex // held while what belongs together is put on the stream
	stream cuda.Stream
	pieces chan *piece
	all    []*piece
}

// piece is page-locked memory.
type piece struct {
	buf  []byte
	used bool
	done cuda.Event // it may be used again
}

// pieces is how many there are: more than there are cores filling them, so that
// copying and filling overlap.
const pieces = 32

func (f *feeder) take(c *cuda.Context, size int) (err error) {
	if f.stream, err = c.NewStream(); err != nil {
		return err
	}
	f.pieces = make(chan *piece, pieces)
	for range pieces {
		p := &piece{}
		f.all = append(f.all, p)
		if p.done, err = c.NewEvent(false); err != nil {
			return err
		}
		if p.buf, err = c.AllocHost(size); err != nil {
			return err
		}
		f.pieces <- p
	}
	return nil
}

func (f *feeder) release(c *cuda.Context) error {
	var errs []error
	if f.stream != 0 {
		errs = append(errs, c.DestroyStream(f.stream))
	}
	for _, p := range f.all {
		if p.done != 0 {
			errs = append(errs, c.DestroyEvent(p.done))
		}
		if p.buf != nil {
			errs = append(errs, c.FreeHost(p.buf))
		}
	}
	return errors.Join(errs...)
}

// transfer is a stretch of the host's memory and where it goes.
type transfer struct {
	from []byte
	to   uint64 // device address
}

// load is what a piece is filled with: transfers right behind each other, but for
// less than 8 bytes.
type load []transfer

func (l load) size() int {
	last := l[len(l)-1]
	return int(last.to-l[0].to) + len(last.from)
}

// loads cuts transfers, which are in the order of their addresses where they are
// near each other, into loads of at most size bytes.
func loads(ts []transfer, size int) []load {
	var out []load
	var open load
	for _, t := range ts {
		if len(open) > 0 {
			end := open[0].to + uint64(open.size())
			if t.to < end || t.to-end >= 8 || int(t.to-open[0].to) >= size {
				out, open = append(out, open), nil
			}
		}
		for len(t.from) > 0 {
			room := size
			if len(open) > 0 {
				room -= int(t.to - open[0].to)
			}
			n := min(room, len(t.from))
			open = append(open, transfer{t.from[:n], t.to})
			t.from, t.to = t.from[n:], t.to+uint64(n)
			if len(t.from) > 0 {
				out, open = append(out, open), nil
			}
		}
	}
	if len(open) > 0 {
		out = append(out, open)
	}
	return out
}

// direct puts copies out of page-locked memory on the stream.
func (f *feeder) direct(c *cuda.Context, ts []transfer) error {
	for _, t := range ts {
		if err := c.CopyIn(cuda.Pointer(t.to), t.from, f.stream); err != nil {
			return err
		}
	}
	return nil
}

// staged puts copies out of any memory on the stream. The memory may be used again
// when it returns.
func (f *feeder) staged(ts []transfer) error {
	if len(ts) == 0 {
		return nil
	}
	all := loads(ts, len(f.all[0].buf))
	var failed atomic.Bool
	errs := make([]error, len(all))
	parallel.For(len(all), func(k int) {
		if failed.Load() {
			return
		}
		p := <-f.pieces
		if errs[k] = f.send(p, all[k]); errs[k] != nil {
			failed.Store(true)
		}
		f.pieces <- p
	})
	return errors.Join(errs...)
}

func (f *feeder) send(p *piece, l load) error {
	if p.used {
		if err := f.dev.Do(func(c *cuda.Context) error { return c.WaitReached(p.done) }); err != nil {
			return err
		}
	}
	for _, t := range l {
		copy(p.buf[t.to-l[0].to:], t.from)
	}
	return f.dev.Do(func(c *cuda.Context) error {
		if err := c.CopyIn(cuda.Pointer(l[0].to), p.buf[:l.size()], f.stream); err != nil {
			return err
		}
		p.used = true
		return c.Record(p.done, f.stream)
	})
}
