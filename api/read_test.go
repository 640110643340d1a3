package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/golang/snappy"
	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/remoteread"
	remoteserve "github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/selection"
)

// newReadClient returns a client of promwarp's for the server at base.
func newReadClient(t *testing.T, base string) *remoteread.Client {
	t.Helper()
	u, err := url.Parse(base + "/api/v1/read")
	require.NoError(t, err)
	cfg := promconfig.DefaultRemoteReadConfig
	cfg.URL = &commonconfig.URL{URL: u}
	client, err := remoteread.NewClient(&cfg, remoteread.Options{})
	require.NoError(t, err)
	return client
}

// TestRemoteRead reads promwarp as a Prometheus would, with either response
// type, through promwarp's own client and cache.
func TestRemoteRead(t *testing.T) {
	first := httptest.NewServer(newTestAPI(t, nil))
	defer first.Close()
	client := newReadClient(t, first.URL)
	second := httptest.NewServer(newTestAPI(t, func(o *Options) {
		o.Queryable = selection.Storage{Source: cache.New(client, cache.Options{HostBytes: 1 << 20})}
	}))
	defer second.Close()
	defer client.CloseIdle()

	u2, err := url.Parse(second.URL + "/api/v1/read")
	require.NoError(t, err)
	for _, types := range [][]prompb.ReadRequest_ResponseType{
		{prompb.ReadRequest_STREAMED_XOR_CHUNKS, prompb.ReadRequest_SAMPLES},
		{prompb.ReadRequest_SAMPLES},
	} {
		c, err := remote.NewReadClient("test", &remote.ClientConfig{
			URL: &commonconfig.URL{URL: u2}, Timeout: model.Duration(10 * time.Second), ChunkedReadLimit: 1 << 20, AcceptedResponseTypes: types,
		})
		require.NoError(t, err)
		q, err := remote.ToQuery(0, 10*60_000, []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, "__name__", "m")}, nil)
		require.NoError(t, err)
		set, err := c.Read(context.Background(), q, true)
		require.NoError(t, err)
		n := 0
		for set.Next() {
			it := set.At().Iterator(nil)
			k := 0.0
			for it.Next() == chunkenc.ValFloat {
				k++
			}
			require.Equal(t, 11.0, k)
			n++
		}
		require.NoError(t, set.Err())
		require.Equal(t, 2, n)
	}
}

// postRead sends a remote-read request for m to a door.
func postRead(t *testing.T, h http.Handler, url string, types ...prompb.ReadRequest_ResponseType) *httptest.ResponseRecorder {
	t.Helper()
	data, err := (&prompb.ReadRequest{AcceptedResponseTypes: types, Queries: []*prompb.Query{{
		EndTimestampMs: 10 * 60_000, Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "m"}},
	}}}).Marshal()
	require.NoError(t, err)
	return do(t, h, httptest.NewRequest(http.MethodPost, url, bytes.NewReader(snappy.Encode(nil, data))))
}

func TestRemoteReadOptions(t *testing.T) {
	const chunks = prompb.ReadRequest_STREAMED_XOR_CHUNKS
	for name, c := range map[string]struct {
		change func(*Options)
		types  []prompb.ReadRequest_ResponseType
		url    string
		code   int
		want   string
	}{
		"as it is":          {types: nil, code: 200},
		"too many samples":  {change: func(o *Options) { o.Read.SampleLimit = 21 }, code: 400, want: "exceeded sample limit (21)\n"},
		"not of chunks":     {change: func(o *Options) { o.Read.SampleLimit = 21 }, types: []prompb.ReadRequest_ResponseType{chunks}, code: 200},
		"unknown encodings": {url: "?chunks=all", code: 400, want: "parameter chunks: unknown chunk encodings \"all\"; there are auto, xor and as-is\n"},
		"large":             {change: func(o *Options) { o.MaxBodyBytes = 3 }, code: 413, want: "the request is larger than the 3 bytes that promwarp takes\n"},
	} {
		w := postRead(t, newTestAPI(t, c.change), "/api/v1/read"+c.url, c.types...)
		require.Equal(t, c.code, w.Code, "%s: %s", name, w.Body)
		if c.want != "" {
			require.Equal(t, c.want, w.Body.String(), name)
		}
	}
	w := do(t, newTestAPI(t, nil), httptest.NewRequest(http.MethodGet, "/api/v1/read", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

// TestReadReductions: each reduction is a door of its own beside the plain one.
func TestReadReductions(t *testing.T) {
	a := newTestAPI(t, func(o *Options) {
		o.ReadReductions = map[string]remoteserve.Reduce{
			"nothing": func(context.Context, remoteserve.Query, *selection.Selection) (*selection.Selection, func(), error) {
				return selection.Empty(), nil, nil
			},
		}
	})
	require.Less(t, postRead(t, a, "/api/v1/read/nothing").Body.Len(), postRead(t, a, "/api/v1/read").Body.Len())
	require.Equal(t, http.StatusOK, postRead(t, a, "/api/v1/read/nothing").Code)
	require.Equal(t, http.StatusNotFound, postRead(t, a, "/api/v1/read/other").Code)
	require.Equal(t, http.StatusMethodNotAllowed, do(t, a, httptest.NewRequest(http.MethodGet, "/api/v1/read/nothing", nil)).Code)
}

// External labels are in what is read and in the configuration, where readers such as
// Thanos's sidecar look for them.
func TestExternalLabels(t *testing.T) {
	a := newTestAPI(t, func(o *Options) {
		o.Config = func() promconfig.Config { return promconfig.Config{StorageConfig: promconfig.StorageConfig{}} }
		o.ExternalLabels = func() labels.Labels { return labels.FromStrings("cluster", "eu", "replica", "a") }
	})
	w := postRead(t, a, "/api/v1/read")
	require.Equal(t, http.StatusOK, w.Code)
	data, err := snappy.Decode(nil, w.Body.Bytes())
	require.NoError(t, err)
	var resp prompb.ReadResponse
	require.NoError(t, resp.Unmarshal(data))
	require.Len(t, resp.Results[0].Timeseries, 2)
	for _, ts := range resp.Results[0].Timeseries {
		require.Contains(t, ts.Labels, prompb.Label{Name: "cluster", Value: "eu"})
		require.Contains(t, ts.Labels, prompb.Label{Name: "replica", Value: "a"})
	}
	_, got := getJSON(t, a, "/api/v1/status/config")
	var status struct{ YAML string }
	require.NoError(t, json.Unmarshal(got.Data, &status))
	var shown promconfig.Config
	require.NoError(t, yaml.Unmarshal([]byte(status.YAML), &shown))
	require.Equal(t, "{cluster=\"eu\", replica=\"a\"}", shown.GlobalConfig.ExternalLabels.String(), status.YAML)
}

// TestRemoteReadRegexps: the regular expressions of all queries of a remote read are bounded
// together, as those of a query are, before they are compiled.
func TestRemoteReadRegexps(t *testing.T) {
	a := newTestAPI(t, func(o *Options) { o.Limits.RegexpSize = 1000 })
	large := &prompb.Query{EndTimestampMs: 1, Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "i", Value: "(a{20}b){30}"}}}
	for n, want := range map[int]int{1: 200, 2: 400} {
		data, err := (&prompb.ReadRequest{Queries: slices.Repeat([]*prompb.Query{large}, n)}).Marshal()
		require.NoError(t, err)
		w := do(t, a, httptest.NewRequest(http.MethodPost, "/api/v1/read", bytes.NewReader(snappy.Encode(nil, data))))
		require.Equal(t, want, w.Code, w.Body)
		if want == 400 {
			require.Contains(t, w.Body.String(), "--query.max-regexp-size allows is 1000")
		}
	}
}
