package api

import (
	"context"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	commonconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/remoteread"
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
		o.Queryable = cache.New(client, cache.Options{HostBytes: 1 << 20})
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
