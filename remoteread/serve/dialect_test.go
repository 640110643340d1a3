package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

func TestDialect(t *testing.T) {
	plain, floats := dialect{}, dialect{xor2: true}
	for _, c := range []struct {
		standard  Chunks
		url       string
		userAgent string
		want      dialect
	}{
		{standard: Auto, userAgent: "Prometheus/3.15.0", want: everything},
		{standard: Auto, userAgent: "Prometheus/3.14.0", want: everything},
		{standard: Auto, userAgent: "Prometheus/4.0.0-rc.1 (linux)", want: everything},
		{standard: Auto, userAgent: "Prometheus/3.13.2", want: floats},
		{standard: Auto, userAgent: "Prometheus/3.11.0", want: floats},
		{standard: Auto, userAgent: "Prometheus/3.11.0-rc.0", want: plain},
		{standard: Auto, userAgent: "Prometheus/3.12.0-rc.0", want: floats},
		{standard: Auto, userAgent: "Prometheus/3.15.1+debian", want: everything},
		{standard: Auto, userAgent: "Prometheus/3.10.0", want: plain},
		{standard: Auto, userAgent: "Prometheus/2.53.1", want: plain},
		{standard: Auto, userAgent: "Prometheus/", want: plain},
		{standard: Auto, userAgent: "Prometheus/3", want: plain},
		{standard: Auto, userAgent: "Prometheus/x.y.z", want: plain},
		{standard: Auto, userAgent: "promwarp/0.1.0", want: everything},
		{standard: Auto, userAgent: "Thanos/0.39.2", want: plain},
		{standard: Auto, userAgent: "vmctl", want: plain},
		{standard: Auto, userAgent: "Go-http-client/1.1", want: plain},
		{standard: Auto, userAgent: "", want: plain},
		{standard: Auto, url: "?chunks=as-is", userAgent: "Thanos/0.39.2", want: everything},
		{standard: Auto, url: "?chunks=xor", userAgent: "Prometheus/3.15.0", want: plain},
		{standard: XOR, userAgent: "Prometheus/3.15.0", want: plain},
		{standard: XOR, url: "?chunks=auto", userAgent: "Prometheus/3.15.0", want: everything},
		{standard: AsIs, userAgent: "Thanos/0.39.2", want: everything},
		{standard: AsIs, url: "?chunks=xor", want: plain},
	} {
		r := httptest.NewRequest("POST", "/api/v1/read"+c.url, nil)
		r.Header.Set("User-Agent", c.userAgent)
		got, err := dialectOf(c.standard, r)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%+v", c)
	}
	_, err := dialectOf(Auto, httptest.NewRequest("POST", "/api/v1/read?chunks=xor3", nil))
	require.EqualError(t, err, `parameter chunks: unknown chunk encodings "xor3"; there are auto, xor and as-is`)
	_, err = New(Options{Queryable: &inMemory{}, Chunks: "all"})
	require.ErrorContains(t, err, `"all"`)
}

// What each reader gets of chunks in all encodings.
func TestEncodingsByReader(t *testing.T) {
	r := seeded(t)
	h := newHandler(t, &inMemory{sel: random(t, r, 60)})
	req := &prompb.ReadRequest{AcceptedResponseTypes: streamed, Queries: []*prompb.Query{query(0, latest)}}
	plain := []chunkenc.Encoding{chunkenc.EncXOR, chunkenc.EncHistogram, chunkenc.EncFloatHistogram}
	for userAgent, want := range map[string][]chunkenc.Encoding{
		"Prometheus/3.15.0": encodings,
		"promwarp/1.0.0":    encodings,
		"Prometheus/3.12.0": append([]chunkenc.Encoding{chunkenc.EncXOR2}, plain...),
		"Prometheus/3.5.0":  plain,
		"Thanos/0.39.2":     plain,
		"curl/8.0":          plain,
	} {
		got := map[chunkenc.Encoding]bool{}
		w := ask(t, h, req, func(r *http.Request) { r.Header.Set("User-Agent", userAgent) })
		for _, f := range frames(t, w.Body) {
			for _, c := range f.ChunkedSeries[0].Chunks {
				got[chunkenc.Encoding(c.Type)] = true
			}
		}
		for _, e := range encodings {
			require.Equal(t, contains(want, e), got[e], "%s: %s", userAgent, e)
		}
	}
}

func contains(es []chunkenc.Encoding, e chunkenc.Encoding) bool {
	for _, x := range es {
		if x == e {
			return true
		}
	}
	return false
}
