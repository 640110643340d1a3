package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/encoding"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/slab"
)

// readHead reads the end of a file of a size in bytes, whatever it is needed for.
func readHead(r io.ReaderAt, size int64) (f footer, h head, err error) {
	tail := func(n int64) ([]byte, error) { return readAt(r, size-n, nil, uint64(n)) }
	b, err := tail(min(footerSize, size))
	if err != nil {
		return f, h, err
	}
	if f, err = parseFooter(b); err != nil {
		return f, h, err
	}
	if f.Size != uint64(size) {
		return f, h, fmt.Errorf("it has %d bytes instead of %d", size, f.Size)
	}
	need := int64(f.HeadLen) + footerSize
	if need > size {
		return f, h, errors.New("its head is longer than the file")
	}
	if b, err = tail(need); err != nil {
		return f, h, err
	}
	index := b[:f.HeadLen]
	if checksum(index) != f.HeadSum {
		return f, h, errors.New("its head does not match its checksum")
	}
	if h, err = parseHead(index); err != nil {
		return f, h, err
	}
	total := uint64(need)
	for _, part := range append(h.slabs, slabHead{size: f.SeriesLen}) {
		if part.size > uint64(size)-total {
			return f, h, errors.New("its parts are longer than the file")
		}
		total += part.size
	}
	if total != uint64(size) {
		return f, h, errors.New("its parts are shorter than the file")
	}
	return f, h, nil
}

// readAt reads n bytes of r from an offset on, into b if they fit.
func readAt(r io.ReaderAt, at int64, b []byte, n uint64) ([]byte, error) {
	if uint64(cap(b)) < n {
		b = make([]byte, n)
	}
	_, err := r.ReadAt(b[:n], at)
	return b[:n], err
}

// load reads the chunks of a file that have something of a stretch of time. Only slabs with such chunks
// are read, and compared with their checksums. Of a slab no more than those chunks stays in memory. room
// is asked before each slab whether there is memory for it.
func (f *File) load(ctx context.Context, r io.ReaderAt, of tile.Span, room func() error) (*selection.Selection, error) {
	starts, end := make([]int64, len(f.slabs)), int64(0)
	for i, s := range f.slabs {
		starts[i] = end
		end += int64(s.size)
	}
	series, err := readAt(r, end, nil, f.SeriesLen)
	if err != nil {
		return nil, err
	}
	if checksum(series) != f.SeriesSum {
		return nil, errors.New("its series do not match their checksum")
	}
	t := table{slabs: f.slabs}
	if err := t.parse(ctx, series, of); err != nil {
		return nil, err
	}
	var buffers sync.Pool // of *[]byte, with the content of a slab
	buffers.New = func() any { return new([]byte) }
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	var slabs slab.Slabs
	var reads []func() error // of each slab
	for first, end := 0, 0; first < len(t.chunks); first = end {
		k, number, size := t.chunks[first].Slab, uint32(len(slabs)), slab.Pad
		for end = first; end < len(t.chunks) && t.chunks[end].Slab == k; end++ {
			size += slab.Footprint(t.chunks[end].Len)
		}
		slabs = append(slabs, nil)
		chunks := t.chunks[first:end]
		read := func() error {
			if err := errors.Join(ctx.Err(), room()); err != nil {
				return err
			}
			b := buffers.Get().(*[]byte)
			defer buffers.Put(b)
			var err error
			if *b, err = readAt(r, starts[k], *b, f.slabs[k].size); err != nil {
				return err
			}
			if checksum(*b) != f.slabs[k].sum {
				return fmt.Errorf("its slab %d does not match its checksum", k)
			}
			l := slab.New(size)
			for i := range chunks {
				c := &chunks[i]
				c.Slab, c.Off = number, l.Add((*b)[c.Off:c.Off+c.Len])
			}
			slabs[number] = l
			return nil
		}
		reads = append(reads, read)
	}
	for _, read := range reads {
		g.Go(func() error { return parallel.Rescue(read) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return selection.Assemble(t.series, t.first, t.chunks, slabs)
}

// table is what of the series of a file has chunks in a stretch of time.
type table struct {
	slabs  []slabHead // of the file
	series []labels.Labels
	first  []uint32
	chunks []selection.Chunk // where they lie in the slabs of the file, in order
}

// parse reads the series at b.
func (t *table) parse(ctx context.Context, b []byte, of tile.Span) error {
	r := &encoding.Decbuf{B: b}
	n := count(r, 2)
	t.series = make([]labels.Labels, 0, n)
	t.first = make([]uint32, 1, n+1)
	t.chunks = make([]selection.Chunk, 0, count(r, 5))
	var builder labels.ScratchBuilder
	k, off := 0, 0 // where the next chunk is in the file
	for i := range n {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		builder.Reset()
		for range count(r, 2) {
			builder.Add(r.UvarintStr(), r.UvarintStr()) // which lie in b
		}
		last := int64(0)
		for range count(r, 5) {
			c := selection.Chunk{MinT: last + r.Varint64()}
			c.MaxT = c.MinT + int64(r.Uvarint64())
			length, samples := r.Uvarint64(), r.Uvarint64()
			c.Enc = chunkenc.Encoding(r.Byte())
			last = c.MaxT
			if r.E != nil || length > math.MaxInt32 || samples > math.MaxUint16 {
				return errors.New("its series are malformed")
			}
			c.Len, c.Samples = uint32(length), uint16(samples)
			n := slab.Footprint(c.Len)
			if k < len(t.slabs) && off+n > int(t.slabs[k].size) {
				k, off = k+1, 0
			}
			if k >= len(t.slabs) || off+n > int(t.slabs[k].size) {
				return errors.New("a chunk lies outside of the slabs")
			}
			if c.MinT < of.To && c.MaxT >= of.From {
				c.Slab, c.Off = uint32(k), uint32(off)
				t.chunks = append(t.chunks, c)
			}
			off += n
		}
		if len(t.chunks) > math.MaxUint32 {
			return errors.New("it has too many chunks")
		}
		if end := uint32(len(t.chunks)); end > t.first[len(t.first)-1] {
			t.series = append(t.series, builder.Labels())
			t.first = append(t.first, end)
		}
	}
	return end(r)
}
