package api

import (
	"github.com/prometheus/prometheus/promql"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/api/encode"
)

// minStreamed is from how many points on an answer is streamed, about 250 KB.
const minStreamed = 1 << 13

// jsonCodec stands in for Prometheus's v1.JSONCodec and writes the same bytes,
// faster. Of a large answer it encodes only the beginning; the request's stream
// writes the rest behind that.
type jsonCodec struct {
	encode.Codec
	streams *streams
}

// Encode implements v1.Codec.
func (c jsonCodec) Encode(resp *v1.Response) ([]byte, error) {
	a, err := encode.New(resp)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return c.Codec.Encode(resp)
	}
	// Histograms may panic, which has to happen before the status is sent.
	if a.Points() >= minStreamed && !a.Histograms() {
		if s := c.streams.take(firstRow(resp.Data.(*v1.QueryData).Result)); s != nil {
			s.rest = a
			return a.Head(), nil
		}
	}
	return a.Bytes(), nil
}

// firstRow is the address of the first row of a matrix or a vector, by which
// the value is known even when a limit cut it, or nil.
func firstRow(value any) any {
	switch v := value.(type) {
	case promql.Matrix:
		if len(v) > 0 {
			return &v[0]
		}
	case promql.Vector:
		if len(v) > 0 {
			return &v[0]
		}
	}
	return nil
}
