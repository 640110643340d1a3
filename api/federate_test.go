package api

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/remoteread"
)

// federated is a storage with series whose newest samples are of all kinds.
func federated(t *testing.T, now time.Time) *teststorage.TestStorage {
	s := teststorage.New(t)
	app := s.Appender(t.Context())
	ms := now.UnixMilli()
	floats := func(l labels.Labels, t0 int64, values ...float64) {
		for i, v := range values {
			_, err := app.Append(0, l, t0+int64(i)*1000, v)
			require.NoError(t, err)
		}
	}
	floats(labels.FromStrings("__name__", "b", "i", "1"), ms-60_000, 1, 2, 3)
	floats(labels.FromStrings("__name__", "a", "instance", "x", "job", "own"), ms-30_000, 4, math.Inf(1))
	floats(labels.FromStrings("__name__", "a", "Z", "before the name"), ms-30_000, 5)
	floats(labels.FromStrings("__name__", "old"), ms-301_000, 6)
	floats(labels.FromStrings("__name__", "gone"), ms-30_000, 7, math.Float64frombits(value.StaleNaN))
	floats(labels.FromStrings("without", "a name"), ms-30_000, 8)
	histograms := func(l labels.Labels, h *histogram.Histogram, f *histogram.FloatHistogram) {
		_, err := app.AppendHistogram(0, l, ms-10_000, h, f)
		require.NoError(t, err)
	}
	histograms(labels.FromStrings("__name__", "h", "i", "1"), tsdbutil.GenerateTestHistogram(1), nil)
	histograms(labels.FromStrings("__name__", "h", "i", "2"), nil, tsdbutil.GenerateTestGaugeFloatHistogram(2))
	histograms(labels.FromStrings("__name__", "h", "i", "3"), nil, tsdbutil.GenerateTestFloatHistogram(3))
	histograms(labels.FromStrings("__name__", "h_custom"), tsdbutil.GenerateTestCustomBucketsHistogram(4), nil)
	require.NoError(t, app.Commit())
	return s
}

func TestFederate(t *testing.T) {
	now := time.Now()
	a := newTestAPI(t, func(o *Options) {
		o.Queryable = federated(t, now)
		o.ExternalLabels = func() labels.Labels { return labels.FromStrings("job", "theirs", "region", "eu") }
	})
	families := func(query, accept string) []*dto.MetricFamily {
		r := httptest.NewRequest("GET", "/federate"+query, nil)
		r.Header.Set("Accept", accept)
		w := do(t, a, r)
		require.Equal(t, 200, w.Code, w.Body.String())
		dec := expfmt.NewDecoder(bytes.NewReader(w.Body.Bytes()), expfmt.ResponseFormat(w.Header()))
		var all []*dto.MetricFamily
		for {
			f := &dto.MetricFamily{}
			if err := dec.Decode(f); errors.Is(err, io.EOF) {
				return all
			} else {
				require.NoError(t, err)
			}
			all = append(all, f)
		}
	}
	all := `?match[]={__name__=~".%2b"}&match[]={without!=""}&match[]=b`
	const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

	got := families(all, protobuf)
	var names []string
	for _, f := range got {
		names = append(names, f.GetName()+" "+f.GetType().String())
	}
	require.Equal(t, []string{"a UNTYPED", "b UNTYPED", "h HISTOGRAM", "h GAUGE_HISTOGRAM", "h HISTOGRAM", "h_custom HISTOGRAM"}, names)
	require.Len(t, got[0].Metric, 2)
	require.Equal(t, []string{"Z=before the name", "instance=", "job=theirs", "region=eu"}, pairs(got[0].Metric[0]))
	require.Equal(t, []string{"instance=x", "job=own", "region=eu"}, pairs(got[0].Metric[1]))
	require.True(t, math.IsInf(got[0].Metric[1].GetUntyped().GetValue(), 1))
	require.Equal(t, 3.0, got[1].Metric[0].GetUntyped().GetValue())
	require.Equal(t, now.UnixMilli()-58_000, got[1].Metric[0].GetTimestampMs())
	h, want := got[2].Metric[0].GetHistogram(), tsdbutil.GenerateTestHistogram(1).ToFloat(nil)
	require.Equal(t, want.Count, h.GetSampleCountFloat())
	require.Equal(t, want.Sum, h.GetSampleSum())
	require.Equal(t, want.Schema, h.GetSchema())
	require.Equal(t, want.PositiveBuckets, h.GetPositiveCount())
	require.Equal(t, want.NegativeBuckets, h.GetNegativeCount())
	require.Len(t, h.GetNegativeSpan(), len(want.NegativeSpans))
	for i, s := range want.PositiveSpans {
		require.Equal(t, s, histogram.Span{Offset: h.GetPositiveSpan()[i].GetOffset(), Length: h.GetPositiveSpan()[i].GetLength()})
	}
	custom := tsdbutil.GenerateTestCustomBucketsHistogram(4)
	h = got[5].Metric[0].GetHistogram()
	require.Len(t, h.GetBucket(), len(custom.CustomValues))
	require.Equal(t, float64(custom.PositiveBuckets[0]), h.GetBucket()[0].GetCumulativeCountFloat())

	// Text has no native histograms but those with custom buckets.
	names = nil
	for _, f := range families(all, "text/plain") {
		names = append(names, f.GetName())
	}
	require.ElementsMatch(t, []string{"a", "b", "h_custom"}, names) // the decoder's order is chance
	require.Empty(t, families("", "text/plain"))

	r := httptest.NewRequest("GET", "/federate?match[]={__name__=~%22.%2B%22}", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	w := do(t, a, r)
	require.Equal(t, "gzip", w.Header().Get("Content-Encoding"))
}

func pairs(m *dto.Metric) (all []string) {
	for _, l := range m.Label {
		all = append(all, l.GetName()+"="+l.GetValue())
	}
	return all
}

func TestFederateFails(t *testing.T) {
	a := newTestAPI(t, nil)
	for _, path := range []string{"/federate?match[]=sum(", "/federate?match[]=", "/federate?match[]=a;b"} {
		w := do(t, a, httptest.NewRequest("GET", path, nil))
		require.Equal(t, 400, w.Code, path)
		require.Equal(t, "text/plain; charset=utf-8", w.Header().Get("Content-Type"))
	}
	a = newTestAPI(t, func(o *Options) { o.Queryable = failing{err: errors.New("a corrupt chunk")} })
	w := do(t, a, httptest.NewRequest("GET", "/federate?match[]=up", nil))
	require.Equal(t, 500, w.Code)
	require.Contains(t, w.Body.String(), "a corrupt chunk")
	a = newTestAPI(t, func(o *Options) {
		o.Queryable = failing{err: &remoteread.Error{Upstream: "http://up", Err: errors.New("refused")}}
	})
	w = do(t, a, httptest.NewRequest("GET", "/federate?match[]=up", nil))
	require.Equal(t, 502, w.Code)
}

// One upstream answers itself; one that has no such door is answered for.
func TestFederateForwarded(t *testing.T) {
	now := time.Now()
	code := 200
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "theirs 1\n")
	})
	a := u.api(t, func(o *Options) { o.Queryable = federated(t, now) })
	ask := func() *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "/federate?match[]=b", nil)
		r.Header.Set("Accept", "text/plain")
		r.Header.Set("Authorization", "Bearer client")
		return do(t, a, r)
	}
	w := ask()
	require.Equal(t, "theirs 1\n", w.Body.String())
	require.Equal(t, "/prefix/federate?match[]=b", u.got.RequestURI)
	require.Empty(t, u.got.Header.Get("Authorization"))
	require.Empty(t, w.Header().Values("Vary"))
	code = 400
	require.Equal(t, 400, ask().Code)
	code = 404
	w = ask()
	require.Equal(t, 200, w.Code)
	require.Regexp(t, `^# TYPE b untyped\nb\{i="1",instance=""\} 3 \d+\n$`, w.Body.String())
	code = 401
	require.Equal(t, 502, ask().Code)
}
