package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/selection"
)

// eleven is an upstream of a series of eleven samples.
type eleven struct{}

func (eleven) Fetch(context.Context, int64, int64, []*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	b := selection.NewBuilder(0)
	b.Series(labels.FromStrings("__name__", "m"))
	if err := b.Floats([]int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, make([]float64, 11)); err != nil {
		return nil, nil, err
	}
	sel, err := b.Finish()
	return sel, nil, err
}

// The limits of remote read hold in a server, and its metrics count what they refuse.
func TestServeRemoteRead(t *testing.T) {
	set := quickSettings()
	set.Storage.ReadSampleLimit, set.Storage.ReadMaxQueries = 10, 1
	s, _ := runServer(t, Config{Settings: set, Upstream: eleven{}})
	defer http.DefaultClient.CloseIdleConnections()
	ask := func(queries int, types ...prompb.ReadRequest_ResponseType) (int, string, []byte) {
		req := &prompb.ReadRequest{AcceptedResponseTypes: types}
		for range queries {
			req.Queries = append(req.Queries, &prompb.Query{EndTimestampMs: 60 * 60_000, Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "m"}}})
		}
		data, err := req.Marshal()
		require.NoError(t, err)
		resp, err := http.Post(s.URL()+config.ReadPath, "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, data)))
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, resp.Header.Get("Content-Type"), body
	}
	code, _, body := ask(1)
	require.Equal(t, 400, code)
	require.Equal(t, "exceeded sample limit (10)\n", string(body))
	code, _, body = ask(2)
	require.Equal(t, 400, code)
	require.Contains(t, string(body), "2 queries or more; the limit is 1")
	code, typ, body := ask(1, prompb.ReadRequest_STREAMED_XOR_CHUNKS)
	require.Equal(t, 200, code)
	require.Equal(t, "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse", typ)
	require.NotEmpty(t, body)

	_, text := fetch(t, "GET", s.URL()+"/metrics")
	for _, m := range []string{
		`promwarp_read_requests_total{form="samples",outcome="refused"} 1`, `promwarp_read_requests_total{form="none",outcome="refused"} 1`,
		`promwarp_read_requests_total{form="chunks",outcome="ok"} 1`, "promwarp_read_series_total 1", "prometheus_remote_read_handler_queries 0",
	} {
		require.Contains(t, text, m)
	}
	_, text = fetch(t, "GET", s.URL()+"/api/v1/status/flags")
	require.Contains(t, text, `"storage.remote.read-sample-limit":"10"`)
}
