package serve

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"
	"sync"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/yield"
	"github.com/promwarp/promwarp/selection"
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
	w      *response
	buf    []byte
	frame  frame
	chunks [3]int // sent as stored, cut, reencoded
	series int
	point  yield.Point

	decoded floats            // memory to be used again
	decoder chunkenc.Iterator // the same
}

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// chunks answers req with frames of chunks.
func (j *job) chunks(ctx context.Context, w *response, req *prompb.ReadRequest) error {
	w.Header().Set("Content-Type", typeChunks)
	buf := buffers.Get().(*[]byte)
	s := &stream{job: j, w: w, buf: (*buf)[:0]}
	defer func() {
		s.count()
		if *buf = s.buf; cap(*buf) <= keepBuffer {
			buffers.Put(buf)
		}
	}()
	for i, q := range req.Queries {
		s.frame.query = i
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
	// What has too many samples is refused before any is sent.
	if limit := s.h.o.StreamSampleLimit; limit > 0 {
		if n, err := f.count(ctx, false); err != nil {
			return err
		} else if n > limit {
			return refuse("exceeded sample limit (%d) of streamed answers, which --storage.remote.read-stream-sample-limit sets", limit)
		}
	}
	defer s.point.Leave()
	return f.each(ctx, s.external, func(one series, chunks []selection.Chunk) error {
		s.point.Pass()
		return s.sendSeries(f, one, chunks)
	})
}

// count returns how many samples there are in chunks that overlap the range, or, if they are to be
// whole, in those that lie in it.
func (f found) count(ctx context.Context, whole bool) (n int64, err error) {
	watch := yield.Watch{Ctx: ctx}
	defer watch.Leave()
	for i := range f.sel.NumSeries() {
		if err := watch.Err(); err != nil {
			return 0, err
		}
		for _, c := range f.sel.Overlapping(i, f.mint, f.maxt) {
			if !whole || f.holds(c) {
				n += int64(c.Samples)
			}
		}
	}
	return n, nil
}

// sendSeries sends the samples of one series within the range of f.
func (s *stream) sendSeries(f found, one series, chunks []selection.Chunk) error {
	var labelBytes int
	s.frame.reset()
	s.frame.labels, labelBytes = appendLabels(s.frame.labels[:0], one.labels)
	room := s.h.o.FrameBytes - labelBytes
	left := room
	sent := false
	for _, c := range chunks {
		p := piece{c.MinT, c.MaxT, c.Enc, nil}
		enc := s.reader.encoding(c.Enc)
		switch {
		case f.holds(c) && enc == c.Enc:
			s.chunks[0]++
			p.data = one.sel.Bytes(c)
		default:
			if f.holds(c) {
				s.chunks[2]++
			} else {
				s.chunks[1]++
			}
			var err error
			if p, err = s.reencode(f, one, c, enc); err != nil {
				return err
			}
		}
		if p.data == nil {
			continue
		}
		sent = true
		if left -= s.frame.add(p); left <= 0 {
			left = room
			if err := s.endFrame(); err != nil {
				return err
			}
		}
	}
	if sent {
		s.series++
	}
	if len(s.frame.pieces) == 0 {
		return nil
	}
	return s.endFrame()
}

// holds reports whether c lies in range.
func (f found) holds(c selection.Chunk) bool { return c.MinT >= f.mint && c.MaxT <= f.maxt }

// endFrame ends the present frame; the series may go on in another.
func (s *stream) endFrame() error {
	s.buf = s.frame.append(s.buf)
	s.frame.reset()
	if len(s.buf) < batch {
		return nil
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

// count adds what was sent to the metrics.
func (s *stream) count() {
	for i, sent := range []string{sentAsStored, sentCut, sentReencoded} {
		s.h.metrics.chunks[sent].Add(float64(s.chunks[i]))
	}
	s.h.metrics.series.Add(float64(s.series))
}

// A streamed answer is a sequence of frames: the length of the message as a varint, the
// CRC-32C of the message big-endian, the message. The message of a frame with one chunk of
// series {a="b"} from 1 to 2 ms, in bytes:
//
//	17                        length
//	xx xx xx xx               checksum
//	0a 15                     ChunkedReadResponse.chunked_series, 21 bytes
//	   0a 06                  ChunkedSeries.labels, 6 bytes
//	      0a 01 61            Label.name "a"
//	      12 01 62            Label.value "b"
//	   12 0b                  ChunkedSeries.chunks, 11 bytes
//	      08 01               Chunk.min_time_ms
//	      10 02               Chunk.max_time_ms
//	      18 01               Chunk.type, XOR
//	      22 03 xx xx xx      Chunk.data
//
// Fields that are 0 are left out. The number of the query, where it is not the first,
// follows as field 2.
const (
	tagSeries     = 1<<3 | 2 // of ChunkedReadResponse
	tagQueryIndex = 2 << 3
	tagLabels     = 1<<3 | 2 // of ChunkedSeries, and of TimeSeries
	tagChunks     = 2<<3 | 2
	tagName       = 1<<3 | 2 // of Label
	tagValue      = 2<<3 | 2
	tagMinTime    = 1 << 3 // of Chunk
	tagMaxTime    = 2 << 3
	tagType       = 3 << 3
	tagData       = 4<<3 | 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// varintLen is the number of bytes of v as a varint.
func varintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// labelLen is the number of bytes of a Label.
func labelLen(l labels.Label) int {
	n := 0
	for _, s := range []string{l.Name, l.Value} {
		if s != "" {
			n += 1 + varintLen(uint64(len(s))) + len(s)
		}
	}
	return n
}

// appendLabels appends ls as the first fields of a ChunkedSeries or a TimeSeries. sum is
// how many bytes its Labels take without what stands around each.
func appendLabels(b []byte, ls labels.Labels) (out []byte, sum int) {
	ls.Range(func(l labels.Label) {
		n := labelLen(l)
		sum += n
		b = append(b, tagLabels)
		b = binary.AppendUvarint(b, uint64(n))
		b = appendText(b, tagName, l.Name)
		b = appendText(b, tagValue, l.Value)
	})
	return b, sum
}

// appendText appends a field of text, which may be empty.
func appendText(b []byte, tag byte, s string) []byte {
	if s == "" {
		return b
	}
	b = append(b, tag)
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// len is the number of bytes of p as a Chunk.
func (p *piece) len() int {
	n := numberLen(uint64(p.minT)) + numberLen(uint64(p.maxT)) + numberLen(uint64(p.enc))
	if len(p.data) > 0 {
		n += 1 + varintLen(uint64(len(p.data))) + len(p.data)
	}
	return n
}

// append appends p as a Chunk.
func (p *piece) append(b []byte) []byte {
	b = appendNumber(b, tagMinTime, uint64(p.minT))
	b = appendNumber(b, tagMaxTime, uint64(p.maxT))
	b = appendNumber(b, tagType, uint64(p.enc))
	if len(p.data) > 0 {
		b = append(b, tagData)
		b = binary.AppendUvarint(b, uint64(len(p.data)))
		b = append(b, p.data...)
	}
	return b
}

// numberLen is the number of bytes of a field of number v, whose tag is one byte.
func numberLen(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + varintLen(v)
}

// appendNumber appends a field of number v, which may be 0.
func appendNumber(b []byte, tag byte, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, tag), v)
}

// frame is what one frame holds: chunks of one series.
type frame struct {
	query  int    // the query's number
	labels []byte // as appendLabels makes them
	pieces []piece
	size   int // of all pieces as Chunks
}

// add adds p and returns its size as a Chunk.
func (f *frame) add(p piece) int {
	n := p.len()
	f.pieces = append(f.pieces, p)
	f.size += 1 + varintLen(uint64(n)) + n
	return n
}

// reset removes all chunks.
func (f *frame) reset() { f.pieces, f.size = f.pieces[:0], 0 }

// append appends the frame.
func (f *frame) append(b []byte) []byte {
	series := len(f.labels) + f.size
	message := 1 + varintLen(uint64(series)) + series + numberLen(uint64(f.query))
	b = slices.Grow(b, varintLen(uint64(message))+crc32.Size+message)
	b = binary.AppendUvarint(b, uint64(message))
	sum := len(b)
	b = append(b, make([]byte, crc32.Size)...)
	b = append(b, tagSeries)
	b = binary.AppendUvarint(b, uint64(series))
	b = append(b, f.labels...)
	for i := range f.pieces {
		b = append(b, tagChunks)
		b = binary.AppendUvarint(b, uint64(f.pieces[i].len()))
		b = f.pieces[i].append(b)
	}
	b = appendNumber(b, tagQueryIndex, uint64(f.query))
	binary.BigEndian.PutUint32(b[sum:], crc32.Checksum(b[sum+crc32.Size:], castagnoli))
	return b
}
