package stores

import (
	"github.com/prometheus/prometheus/prompb"
	"google.golang.org/protobuf/encoding/protowire"
)

// Question is what a store is asked for.
type Question struct {
	MinT, MaxT int64 // ms, both included
	Matchers   []*prompb.LabelMatcher
	// Whole says that an answer that lacks a part is to be an error.
	Whole bool
}

// Requests are written by hand: the messages of leafpb lack the fields that a leaf of Thanos has no use
// for. Numbers are those of thanos.SeriesRequest and of the requests for lists.

const (
	raw       = 0  // thanos.Aggr.RAW
	abort     = 1  // thanos.PartialResponseStrategy.ABORT
	batchSize = 64 // series of a message, from stores that put several into one
)

// The years 1 and 10000, ms. Stores make texts of the times of lists.
const (
	earliest = -62135596800000
	latest   = 253402300800000
)

// series is the thanos.SeriesRequest. The greatest resolution, field 4, is left at 0: none but raw samples.
func (q Question) series() message {
	b := appendNumber(nil, 1, uint64(q.MinT))
	b = appendNumber(b, 2, uint64(q.MaxT))
	b = q.appendMatchers(b, 3)
	b = protowire.AppendTag(b, 5, protowire.BytesType)
	b = protowire.AppendBytes(b, []byte{raw})
	if q.Whole {
		b = appendNumber(b, 6, 1) // partial_response_disabled
		b = appendNumber(b, 7, abort)
	}
	return appendNumber(b, 16, batchSize)
}

// labelNames is the thanos.LabelNamesRequest.
func (q Question) labelNames(limit int) message { return q.list(nil, 1, limit) }

// labelValues is the thanos.LabelValuesRequest, which has the label before the same fields.
func (q Question) labelValues(label string, limit int) message {
	return q.list(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), label), 2, limit)
}

// list appends the fields that both requests for lists have, the first of them with the number first.
func (q Question) list(b []byte, first protowire.Number, limit int) message {
	if q.Whole {
		b = appendNumber(b, first, 1) // partial_response_disabled
		b = appendNumber(b, first+1, abort)
	}
	b = appendNumber(b, first+2, uint64(max(q.MinT, earliest)))
	b = appendNumber(b, first+3, uint64(min(q.MaxT, latest)))
	b = q.appendMatchers(b, first+5)
	return appendNumber(b, first+7, uint64(limit))
}

func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// appendMatchers appends the matchers, which are on the wire as remote read has them.
func (q Question) appendMatchers(b []byte, field protowire.Number) []byte {
	for _, m := range q.Matchers {
		text, _ := m.Marshal() // which cannot fail
		b = protowire.AppendTag(b, field, protowire.BytesType)
		b = protowire.AppendBytes(b, text)
	}
	return b
}
