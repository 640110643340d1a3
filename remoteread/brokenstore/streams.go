package brokenstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/prometheus/prometheus/prompb"
)

// streams are the kinds whose stream of frames is broken.
var streams = []Kind{
	body("wrong checksum", "the checksum of a frame", func(x *exchange) []byte {
		b := frames(x.series...)
		b[len(b)-1] ^= 1
		return b
	}),
	body("a frame's length is no number", "the length of a frame is not a number", func(*exchange) []byte {
		return []byte(strings.Repeat("\xff", 20))
	}),
	body("a frame of exabytes", "exceeds the limit", func(*exchange) []byte {
		return append(binary.AppendUvarint(nil, math.MaxUint64), make([]byte, 100)...)
	}),
	body("a frame of megabytes that does not come", "cut off", func(*exchange) []byte {
		return append(binary.AppendUvarint(nil, 3<<20), make([]byte, 1000)...)
	}),
	body("ends in a frame", "cut off", func(x *exchange) []byte {
		b := frames(x.series...)
		return b[:len(b)-7]
	}),
	body("ends in a frame's length", "cut off", func(x *exchange) []byte { return append(frames(x.series...), 0xff) }),
	body("garbage in a frame", "not valid protobuf", func(*exchange) []byte {
		return frame([]byte{0x0a, 0x05, 0x0a, 0xff, 0xff, 0xff, 0xff})
	}),
	body("a field of another type", "wire type", func(*exchange) []byte { return frame([]byte{0x08, 0x05}) }),
	body("another query's answer", "the answer is for query 9", func(*exchange) []byte { return frame([]byte{0x10, 9}) }),
	body("an error's text behind the frames", "the disk is gone", func(x *exchange) []byte {
		return append(frames(x.series...), "expanding series: the disk is gone\n"...)
	}),
	endless("zeros without end", "a frame without a series", func(*exchange) []byte { return make([]byte, 1<<20) }),
	endless("frames without series, without end", "a frame without a series", func(*exchange) []byte {
		return bytes.Repeat(frame([]byte{0x10, 0}), 10_000)
	}),
	{Name: "series without end", Fails: true, Endless: true, Says: "exceeds its byte limit", answer: func(x *exchange) {
		x.endless(func(n int) []byte {
			var b []byte
			for i := range 1000 {
				s := *x.series[0]
				s.Labels = append(s.Labels[:len(s.Labels):len(s.Labels)], prompb.Label{Name: "n", Value: fmt.Sprint(n, i)})
				b = append(b, frames(&s)...)
			}
			return b
		})
	}},
	endless("one series without end", "exceeds its byte limit", func(x *exchange) []byte { return frames(x.series[0]) }),
	endless("chunks of nothing without end", "exceeds its byte limit", func(x *exchange) []byte {
		s := *x.series[0]
		s.Chunks = nil
		for range 10_000 {
			s.Chunks = append(s.Chunks, prompb.Chunk{Type: prompb.Chunk_XOR, Data: []byte{0, 0}})
		}
		return frames(&s)
	}),
}

// endless is a kind that streams the same bytes again and again.
func endless(name, says string, of func(*exchange) []byte) Kind {
	return Kind{Name: name, Fails: true, Endless: true, Says: says, answer: func(x *exchange) {
		b := of(x)
		x.endless(func(int) []byte { return b })
	}}
}

// body is a kind that answers with a stream of bytes.
func body(name, says string, of func(*exchange) []byte) Kind {
	return Kind{Name: name, Fails: true, Says: says, answer: func(x *exchange) { x.stream(of(x)) }}
}

// endless streams what of returns until the client goes.
func (x *exchange) endless(of func(n int) []byte) {
	x.stream(nil)
	for n := 0; x.write(of(n)); n++ {
	}
}
