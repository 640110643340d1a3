package api

import (
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/api/encode"
	"github.com/promwarp/promwarp/internal/tracing"
)

// minStreamed is from how many points on an answer is streamed, about 30 KB.
const minStreamed = 1 << 10

// jsonCodec stands in for Prometheus's v1.JSONCodec and writes the same bytes,
// faster. Of a large answer it encodes only the beginning; the request's stream
// writes the rest behind that.
type jsonCodec struct{ encode.Codec }

// Encode implements v1.Codec.
func (c jsonCodec) Encode(resp *v1.Response) (begin []byte, err error) {
	value, s := resultOf(resp)
	if s == nil {
		return c.Codec.Encode(resp)
	}
	_, span := tracing.Start(s.ctx, "encode")
	defer func() { tracing.End(span, err) }()
	data := *resp.Data.(*v1.QueryData)
	data.Result = value
	whole := *resp
	whole.Data = &data
	a, err := encode.New(&whole)
	if err != nil {
		return nil, err
	}
	if a == nil {
		return c.Codec.Encode(&whole)
	}
	// Histograms may panic, which has to happen before the status is sent.
	if a.Points() >= minStreamed && !a.Histograms() {
		s.rest = a
		return a.Head(), nil
	}
	return a.Bytes(), nil
}
