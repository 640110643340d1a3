package disk

import (
	"context"
	"encoding/binary"
	"io"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/slab"
)

// writeFile writes sel as a file to w. Of h the slabs are filled in, of f the
// sizes and checksums. It ends with ctx, between slabs.
func writeFile(ctx context.Context, w io.Writer, sel *selection.Selection, h *head, f *footer) error {
	out := &counter{w: w}
	buf := make([]byte, 0, slabSize)
	flush := func() error {
		if err := ctx.Err(); err != nil || len(buf) == 0 {
			return err
		}
		h.slabs = append(h.slabs, slabHead{uint64(len(buf)), checksum(buf)})
		_, err := out.Write(buf)
		buf = buf[:0]
		return err
	}
	series := binary.AppendUvarint(nil, uint64(sel.NumSeries()))
	series = binary.AppendUvarint(series, uint64(sel.NumChunks()))
	for i := range sel.NumSeries() {
		series = appendLabels(series, sel.Labels(i))
		cs := sel.Chunks(i)
		series = binary.AppendUvarint(series, uint64(len(cs)))
		last := int64(0)
		for _, c := range cs {
			series = binary.AppendVarint(series, c.MinT-last)
			series = binary.AppendUvarint(series, uint64(c.MaxT-c.MinT))
			series = binary.AppendUvarint(series, uint64(c.Len))
			series = binary.AppendUvarint(series, uint64(c.Samples))
			series = append(series, byte(c.Enc))
			last = c.MaxT
			if len(buf) > 0 && len(buf)+slab.Footprint(c.Len) > slabSize {
				if err := flush(); err != nil {
					return err
				}
			}
			end := len(buf) + slab.Footprint(c.Len)
			buf = append(buf, sel.Bytes(c)...)
			for len(buf) < end {
				buf = append(buf, 0)
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	index := h.append(nil)
	f.seriesLen, f.seriesSum = uint64(len(series)), checksum(series)
	f.headLen, f.headSum = uint32(len(index)), checksum(index)
	f.size = uint64(out.n + len(series) + len(index) + footerSize)
	if _, err := out.Write(series); err != nil {
		return err
	}
	_, err := out.Write(f.append(index))
	return err
}

// counter counts the bytes written.
type counter struct {
	w io.Writer
	n int
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += n
	return n, err
}

func appendLabels(b []byte, ls labels.Labels) []byte {
	b = binary.AppendUvarint(b, uint64(ls.Len()))
	ls.Range(func(l labels.Label) { b = appendString(appendString(b, l.Name), l.Value) })
	return b
}
