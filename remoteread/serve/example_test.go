package serve_test

import (
	"bytes"
	"fmt"
	"net/http/httptest"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// A reader asks for two minutes of two series that are kept in chunks of half an hour.
func Example() {
	sel, err := synthetic.Counters("requests", 2, 240)
	if err != nil {
		panic(err)
	}
	door := serve.New(serve.Options{Queryable: selection.Storage{Source: cache.New(fixed{sel}, cache.Options{HostBytes: 1 << 20})}})
	first := sel.Chunks(0)[0].MinT
	question, err := (&prompb.ReadRequest{
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS},
		Queries: []*prompb.Query{{
			StartTimestampMs: first + 60_000,
			EndTimestampMs:   first + 180_000,
			Matchers:         []*prompb.LabelMatcher{{Name: "__name__", Value: "requests"}},
		}},
	}).Marshal()
	if err != nil {
		panic(err)
	}
	answer := httptest.NewRecorder()
	door.ServeHTTP(answer, httptest.NewRequest("POST", "/api/v1/read", bytes.NewReader(snappy.Encode(nil, question))))

	frames := remote.NewChunkedReader(answer.Body, 1<<20, nil)
	for {
		var frame prompb.ChunkedReadResponse
		if frames.NextProto(&frame) != nil {
			break
		}
		for _, chunk := range frame.ChunkedSeries[0].Chunks {
			samples, _ := chunkenc.FromData(chunkenc.Encoding(chunk.Type), chunk.Data)
			fmt.Println(chunk.Type, samples.NumSamples(), "samples from", (chunk.MinTimeMs-first)/1000, "to", (chunk.MaxTimeMs-first)/1000, "s")
		}
	}
	// Output:
	// XOR 9 samples from 60 to 180 s
	// XOR 8 samples from 73 to 178 s
}
