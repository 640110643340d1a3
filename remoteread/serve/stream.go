package serve

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/samples"
)

const (
	typeChunks = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"
	// batch is how many bytes of frames are collected before they are written.
	batch = 64 << 10
	// keepBuffer is the largest buffer, in bytes, that is kept for other requests.
	keepBuffer = 4 << 20
)

// stream writes an answer of chunks. It makes frames as the reader takes them, so a slow
// reader holds one batch, and what it was found in.
type stream struct {
	*job
	w     *response
	buf   []byte
	query int
	frame prompb.ChunkedSeries // chunks of the present series
	point parallel.Watch

	decoded decode.Buffer     // memory to be used again
	decoder chunkenc.Iterator // the same
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// chunks answers req with frames of chunks.
func (j *job) chunks(ctx context.Context, w *response, req *prompb.ReadRequest) error {
	w.Header().Set("Content-Type", typeChunks)
	buf := buffers.Get().(*[]byte)
	s := &stream{job: j, w: w, buf: (*buf)[:0]}
	defer func() {
		if *buf = s.buf; cap(*buf) <= keepBuffer {
			buffers.Put(buf)
		}
	}()
	for i, q := range req.Queries {
		s.query = i
		if err := j.query(ctx, q, func(f found) error { return s.send(ctx, f) }); err != nil {
			if w.begun {
				_ = s.write() // whole frames, which may still be used
			}
			return err
		}
	}
	if err := s.write(); err != nil {
		return err
	}
	w.flush()
	return nil
}

// send sends what one query found.
func (s *stream) send(ctx context.Context, f found) error {
	defer s.point.Leave()
	return f.each(ctx, s.external, func(one series, chunks []selection.Chunk) error {
		s.point.Pass()
		return s.sendSeries(f, one, chunks)
	})
}

// sendSeries sends the samples of one series within the range of f.
func (s *stream) sendSeries(f found, one series, chunks []selection.Chunk) error {
	room := s.h.o.FrameBytes
	s.frame.Labels, s.frame.Chunks = prompb.FromLabels(one.labels, s.frame.Labels[:0]), s.frame.Chunks[:0]
	for i := range s.frame.Labels {
		room -= s.frame.Labels[i].Size()
	}
	left := room
	for _, c := range chunks {
		p := prompb.Chunk{Type: prompb.Chunk_Encoding(c.Enc), MinTimeMs: c.MinT, MaxTimeMs: c.MaxT}
		if enc := s.reader.encoding(c.Enc); f.holds(c) && enc == c.Enc {
			p.Data = one.sel.Bytes(c)
		} else {
			var err error
			if p, err = s.reencode(f, one, c, enc); err != nil {
				return err
			}
		}
		if p.Data == nil {
			continue
		}
		s.frame.Chunks = append(s.frame.Chunks, p)
		if left -= p.Size(); left <= 0 {
			left = room
			if err := s.endFrame(); err != nil {
				return err
			}
		}
	}
	if len(s.frame.Chunks) == 0 {
		return nil
	}
	return s.endFrame()
}

// endFrame ends the present frame; the series may go on in another.
func (s *stream) endFrame() error {
	var err error
	s.buf, err = appendFrame(s.buf, &prompb.ChunkedReadResponse{ChunkedSeries: []*prompb.ChunkedSeries{&s.frame}, QueryIndex: int64(s.query)})
	s.frame.Chunks = s.frame.Chunks[:0]
	if err != nil || len(s.buf) < batch {
		return err
	}
	return s.write()
}

// write writes the frames that were collected.
func (s *stream) write() error {
	b := s.buf
	s.buf = s.buf[:0]
	if len(b) == 0 {
		return nil
	}
	s.point.Leave() // the reader may be slow
	_, err := s.w.Write(b)
	return err
}

// A streamed answer is a sequence of frames: the length of a prompb.ChunkedReadResponse as a varint, its
// CRC-32C big-endian, and itself. Each has chunks of one series.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrame appends a message as a frame.
func appendFrame(b []byte, m *prompb.ChunkedReadResponse) ([]byte, error) {
	n := m.Size()
	b = binary.AppendUvarint(slices.Grow(b, binary.MaxVarintLen64+crc32.Size+n), uint64(n))
	sum := len(b)
	b = b[:sum+crc32.Size+n]
	message := b[sum+crc32.Size:]
	_, err := m.MarshalToSizedBuffer(message)
	binary.BigEndian.PutUint32(b[sum:], crc32.Checksum(message, castagnoli))
	return b, err
}

// reencode returns the samples of chunk c of one within the range of f as a chunk in encoding enc.
//
// A chunk of which something is cut off is what Prometheus's database makes of it. So its
// first histogram does not say that it is no counter reset: what is before it was cut off.
// A chunk that only changes its encoding says of resets what it said.
func (s *stream) reencode(f found, one series, c selection.Chunk, enc chunkenc.Encoding) (p prompb.Chunk, err error) {
	p.Type = prompb.Chunk_Encoding(enc)
	if enc == chunkenc.EncXOR {
		times, values, err := within(&s.decoded, f, one, []selection.Chunk{c})
		if err == nil && len(times) > 0 {
			p.MinTimeMs, p.MaxTimeMs, p.Data = times[0], times[len(times)-1], encoding.AppendXOR(nil, times, values)
		}
		return p, err
	}
	s.decoder = one.sel.Decode(one.i, []selection.Chunk{c}, f.mint, f.maxt, s.decoder)
	p.Data, p.MinTimeMs, p.MaxTimeMs, err = samples.Encode(enc, s.decoder)
	if err == nil {
		if k := resetByte(c.Enc); k >= 0 && f.holds(c) && p.Data != nil {
			setReset(enc, p.Data, one.sel.Bytes(c)[k])
		}
		return p, nil
	}
	if s.decoder.Err() == nil {
		err = fmt.Errorf("encoding a chunk of series %s at %d ms again: %w", one.labels, s.decoder.AtT(), err)
	}
	return p, err
}

// setReset makes data, a chunk of histograms in encoding e, say of resets what the byte of another
// one says.
func setReset(e chunkenc.Encoding, data []byte, said byte) {
	at := &data[resetByte(e)]
	*at = *at&^chunkenc.CounterResetHeaderMask | said&chunkenc.CounterResetHeaderMask
}

// resetByte returns which byte of a chunk in encoding e says in its highest two bits
// whether its first histogram is after a counter reset; -1 if none does.
func resetByte(e chunkenc.Encoding) int {
	switch e {
	case chunkenc.EncHistogram, chunkenc.EncFloatHistogram:
		return 2
	case chunkenc.EncHistogramST, chunkenc.EncFloatHistogramST:
		return 0
	}
	return -1
}
