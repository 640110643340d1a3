package answer

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/engine/compare"
)

// matrix is an answer with the series given as JSON.
func matrix(series string) Answer {
	return Answer{Code: 200, Body: []byte(`{"status":"success","data":{"resultType":"matrix","result":[` + series + `]}}`)}
}

func parse(t *testing.T, a Answer) *compare.Answer {
	t.Helper()
	m, err := a.Parse()
	require.NoError(t, err)
	return m
}

func TestParse(t *testing.T) {
	m := parse(t, matrix(`{"metric":{"b":"2","a":"[\"1\","},"values":[[1,"1.5"],[2.25,"NaN"], [3,"+Inf"]]},{"metric":{},"values":[[1,"0"]]}`))
	require.Len(t, m.Series, 2)
	require.Equal(t, 4, Points(m))
	require.Equal(t, `{a="[\"1\",", b="2"}`, m.Series[1].Labels.String())
	require.Equal(t, promql.FPoint{T: 1000, F: 1.5}, m.Series[1].Floats[0])
	require.EqualValues(t, 2250, m.Series[1].Floats[1].T)
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		answer Answer
		says   string
	}{
		"an error":      {Answer{Code: 422, Body: []byte(`{"status":"error","error":"too slow"}`)}, "too slow"},
		"no JSON":       {Answer{Code: 200, Body: []byte("hello")}, "hello"},
		"a scalar":      {Answer{Code: 200, Body: []byte(`{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`)}, "scalar"},
		"histograms":    {matrix(`{"metric":{},"histograms":[[1,{"count":"1","sum":"1"}]]}`), "histograms"},
		"a worded time": {matrix(`{"metric":{},"values":[[noon,"1"]]}`), "invalid"},
		"a worded value": {
			matrix(`{"metric":{"a":"b"},"values":[[1,"much"]]}`), `{a="b"}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.answer.Parse()
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestDifference(t *testing.T) {
	const labels = `{"metric":{"job":"a"},"values":`
	want := parse(t, matrix(labels+`[[1,"1"],[2,"NaN"],[3,"+Inf"],[4,"0"]]}`))
	for name, c := range map[string]struct{ got, says string }{
		"same":           {labels + `[[1,"1"],[2,"NaN"],[3,"+Inf"],[4,"-0"]]}`, ""},
		"near":           {labels + `[[1,"1.0000000000000002"],[2,"NaN"],[3,"+Inf"],[4,"0"]]}`, ""},
		"not near":       {labels + `[[1,"2"],[2,"NaN"],[3,"+Inf"],[4,"0"]]}`, `value 2 instead of 1 at 1 of {job="a"}`},
		"a number":       {labels + `[[1,"1"],[2,"0"],[3,"+Inf"],[4,"0"]]}`, `value 0 instead of NaN at 2 of {job="a"}`},
		"other sign":     {labels + `[[1,"1"],[2,"NaN"],[3,"-Inf"],[4,"0"]]}`, `value -Inf instead of +Inf at 3 of {job="a"}`},
		"missing points": {labels + `[[2,"NaN"],[3,"+Inf"]]}`, `value no value instead of 1 at 1 of {job="a"}`},
		"other time":     {labels + `[[1.5,"1"],[2,"NaN"],[3,"+Inf"],[4,"0"]]}`, `value no value instead of 1 at 1 of {job="a"}`},
		"a point more":   {labels + `[[1,"1"],[2,"NaN"],[3,"+Inf"],[4,"0"],[1700000000,"0"]]}`, `value 0 instead of no value at 1700000000 of {job="a"}`},
		"other series":   {`{"metric":{"job":"b"},"values":[[1,"1"]]}`, `series {job="b"} instead of {job="a"}`},
		"twice":          {labels + `[[1,"1"]]},` + labels + `[[2,"1"]]}`, `number of series 2 instead of 1`},
		"nothing":        {"", "number of series 0 instead of 1"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.says, Difference(want, parse(t, matrix(c.got)))) })
	}
}

func TestDifferenceOfNotices(t *testing.T) {
	body := func(notices string) *compare.Answer {
		return parse(t, Answer{Code: 200, Body: []byte(`{"status":"success",` + notices + `"data":{"resultType":"matrix","result":[]}}`)})
	}
	want := body(`"warnings":["w"],"infos":["i"],`)
	require.Empty(t, Difference(want, body(`"warnings":["w"],"infos":["i"],`)))
	require.Equal(t, `infos [] instead of ["i"]`, Difference(want, body(`"warnings":["w"],`)))
}

func TestAsk(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/read":
			_, _ = io.Copy(w, r.Body)
		case r.URL.Path != QueryRange || r.FormValue("query") != "up{}":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte("not so"))
		case r.Header.Get("Accept-Encoding") == "gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write([]byte("packed"))
			_ = z.Close()
		default:
			_, _ = w.Write([]byte("said"))
		}
	}))
	defer server.Close()
	var buf bytes.Buffer
	up := Request{Path: QueryRange, Form: url.Values{"query": {"up{}"}}}
	a, err := Ask(t.Context(), server.URL, up, &buf)
	require.NoError(t, err)
	require.NoError(t, a.Err())
	require.Equal(t, "said", string(a.Body))
	require.Equal(t, 4, a.Sent)
	require.Positive(t, a.First)
	require.GreaterOrEqual(t, a.Took, a.First)

	up.Gzip = true
	a, err = Ask(t.Context(), server.URL, up, &buf)
	require.NoError(t, err)
	require.Equal(t, "packed", string(a.Body))
	require.NotEqual(t, len(a.Body), a.Sent)

	a, err = Ask(t.Context(), server.URL, Request{Path: "/read", Read: []byte("chunks, please")}, nil)
	require.NoError(t, err)
	require.Equal(t, "chunks, please", string(a.Body))

	a, err = Ask(t.Context(), server.URL, Request{Path: QueryRange}, &buf)
	require.NoError(t, err)
	require.ErrorContains(t, a.Err(), "status 400: not so")

	server.Close()
	_, err = Ask(t.Context(), server.URL, up, nil)
	require.Error(t, err)
}
