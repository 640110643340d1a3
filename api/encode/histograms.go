package encode

import (
	"bytes"
	"fmt"

	"github.com/prometheus/prometheus/promql"
	v1 "github.com/prometheus/prometheus/web/api/v1"
)

// histogramBatch is how many histograms go to Prometheus's encoder at once.
const histogramBatch = 64

// appendHistograms has Prometheus's encoder write histograms with their times,
// `[t,{…}],[t,{…}]`, and appends that.
func appendHistograms(b []byte, ps []promql.HPoint) []byte {
	for len(ps) > 0 {
		k := min(len(ps), histogramBatch)
		text, err := v1.JSONCodec{}.Encode(&v1.Response{Data: ps[:k]})
		from := bytes.IndexByte(text, '[')
		to := bytes.LastIndexByte(text, ']')
		if err != nil || from < 0 || to < from {
			// Prometheus's encoder of histograms has no errors.
			panic(fmt.Sprintf("encode: Prometheus's encoder wrote %q for histograms, error %v", text, err))
		}
		b = append(b, text[from+1:to]...)
		if ps = ps[k:]; len(ps) > 0 {
			b = append(b, ',')
		}
	}
	return b
}
