package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/slab"
)

// readHead reads the end of a file, whatever it is needed for.
func readHead(d Directory, name string) (f footer, h head, err error) {
	const guess = 4 << 10 // bytes that mostly have the footer and the head
	size, b, err := d.Tail(name, guess)
	if err != nil {
		return f, h, err
	}
	if f, err = parseFooter(b); err != nil {
		return f, h, err
	}
	if f.size != uint64(size) {
		return f, h, fmt.Errorf("it has %d bytes instead of %d", size, f.size)
	}
	need := int64(f.headLen) + footerSize
	if need > size {
		return f, h, errors.New("its head is longer than the file")
	}
	if need > int64(len(b)) {
		if _, b, err = d.Tail(name, need); err != nil {
			return f, h, err
		}
	}
	index := b[len(b)-int(need) : len(b)-footerSize]
	if checksum(index) != f.headSum {
		return f, h, errors.New("its head does not match its checksum")
	}
	if h, err = parseHead(index); err != nil {
		return f, h, err
	}
	total := uint64(need)
	for _, n := range append([]uint64{f.seriesLen}, sizes(h.slabs)...) {
		if n > uint64(size)-total {
			return f, h, errors.New("its parts are longer than the file")
		}
		total += n
	}
	if total != uint64(size) {
		return f, h, errors.New("its parts are shorter than the file")
	}
	return f, h, nil
}

func sizes(slabs []slabHead) (out []uint64) {
	for _, s := range slabs {
		out = append(out, s.size)
	}
	return out
}

// parse makes a selection of a file's content b, which stays mapped as long as
// owner is reachable. All of it is checked against its checksums, until ctx ends.
func parse(ctx context.Context, b []byte, owner any, f footer, h head) (*selection.Selection, error) {
	if f.size != uint64(len(b)) {
		return nil, fmt.Errorf("it has %d bytes instead of %d", len(b), f.size)
	}
	at := 0
	parts := make([][]byte, len(h.slabs))
	for i, s := range h.slabs {
		parts[i] = b[at : at+int(s.size)] // with the rest of the file behind it
		at += int(s.size)
	}
	series := b[at : at+int(f.seriesLen)]
	if checksum(series) != f.seriesSum {
		return nil, errors.New("its series do not match their checksum")
	}
	verified := make(chan error, 1)
	go func() { verified <- rescue.Do(func() error { return verify(ctx, parts, h.slabs) }) }()
	// Labels may refer to what they are read from.
	sel, err := parseSeries(ctx, bytes.Clone(series), parts, slab.Map(parts, owner))
	if bad := <-verified; bad != nil {
		return nil, bad
	}
	return sel, err
}

// verify compares slabs with their checksums. It ends with ctx, between slabs.
func verify(ctx context.Context, parts [][]byte, want []slabHead) error {
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, p := range parts {
		g.Go(func() error {
			return rescue.Do(func() error {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if checksum(p) != want[i].sum {
					return fmt.Errorf("its slab %d does not match its checksum", i)
				}
				return nil
			})
		})
	}
	return g.Wait()
}

// parseSeries makes a selection of the series at b and the slabs.
func parseSeries(ctx context.Context, b []byte, parts [][]byte, slabs slab.Slabs) (*selection.Selection, error) {
	r := reader{b: b}
	n := r.count(2)
	series := make([]labels.Labels, 0, n)
	first := make([]uint32, 1, n+1)
	chunks := make([]selection.Chunk, 0, r.count(5))
	var builder labels.ScratchBuilder
	k, off := 0, 0
	for i := range n {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		builder.Reset()
		for range r.count(2) {
			name, value := r.bytes(), r.bytes()
			builder.Add(text(name), text(value))
		}
		series = append(series, builder.Labels())
		last := int64(0)
		for range r.count(5) {
			c := selection.Chunk{MinT: last + r.varint()}
			c.MaxT = c.MinT + int64(r.uvarint())
			length, samples := r.uvarint(), r.uvarint()
			c.Enc = chunkenc.Encoding(r.byte())
			last = c.MaxT
			if r.fail || length > math.MaxInt32 || samples > math.MaxUint16 {
				return nil, errors.New("its series are malformed")
			}
			c.Len, c.Samples = uint32(length), uint16(samples)
			if k < len(parts) && off+slab.Footprint(c.Len) > len(parts[k]) {
				k, off = k+1, 0
			}
			c.Slab, c.Off = uint32(k), uint32(off)
			off += slab.Footprint(c.Len)
			chunks = append(chunks, c)
		}
		if len(chunks) > math.MaxUint32 {
			return nil, errors.New("it has too many chunks")
		}
		first = append(first, uint32(len(chunks)))
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return selection.Assemble(series, first, chunks, slabs)
}

// text is b as a string that shares its memory.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
