package answer

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// matrix is an answer with the series given as JSON.
func matrix(series string) Answer {
	return Answer{Code: 200, Body: []byte(`{"status":"success","data":{"resultType":"matrix","result":[` + series + `]}}`)}
}

func parse(t *testing.T, a Answer) *Matrix {
	t.Helper()
	m, err := a.Parse()
	require.NoError(t, err)
	return m
}

func TestParse(t *testing.T) {
	m := parse(t, matrix(`{"metric":{"b":"2","a":"[\"1\","},"values":[[1,"1.5"],[2.25,"NaN"], [3,"+Inf"]]},{"metric":{},"values":[[1,"0"]]}`))
	require.Len(t, m.Series, 2)
	require.Equal(t, 4, m.Points())
	ps := m.Series[`{"a":"[\"1\",","b":"2"}`]
	require.Len(t, ps, 3)
	require.Equal(t, Point{1, 1.5}, ps[0])
	require.InDelta(t, 2.25, ps[1].T, 0)
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		answer Answer
		says   string
	}{
		"an error":      {Answer{Code: 422, Body: []byte(`{"status":"error","error":"too slow"}`)}, "too slow"},
		"no JSON":       {Answer{Code: 200, Body: []byte("hello")}, "hello"},
		"a vector":      {Answer{Code: 200, Body: []byte(`{"status":"success","data":{"resultType":"vector","result":[]}}`)}, "vector"},
		"twice":         {matrix(`{"metric":{},"values":[]},{"metric":{},"values":[]}`), "twice"},
		"histograms":    {matrix(`{"metric":{},"histograms":[[1,{}]]}`), "histograms"},
		"a worded time": {matrix(`{"metric":{},"values":[[noon,"1"]]}`), "invalid"},
		"a worded value": {
			matrix(`{"metric":{"a":"b"},"values":[[1,"much"]]}`), `{"a":"b"}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.answer.Parse()
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestCompare(t *testing.T) {
	const labels = `{"metric":{"job":"a"},"values":`
	want := parse(t, matrix(labels+`[[1,"1"],[2,"NaN"],[3,"+Inf"],[4,"0"]]}`))
	for name, c := range map[string]struct {
		got  string
		want Difference
	}{
		"same":           {labels + `[[1,"1"],[2,"NaN"],[3,"+Inf"],[4,"-0"]]}`, Difference{}},
		"near":           {labels + `[[1,"1.0000000000000002"],[2,"NaN"],[3,"+Inf"],[4,"0"]]}`, Difference{}},
		"not near":       {labels + `[[1,"2"],[2,"NaN"],[3,"+Inf"],[4,"0"]]}`, Difference{Values: 1, Worst: 0.5, First: `series {"job":"a"} is 2 at 1 instead of 1`}},
		"a number":       {labels + `[[1,"1"],[2,"0"],[3,"+Inf"],[4,"0"]]}`, Difference{Values: 1, First: `series {"job":"a"} is 0 at 2 instead of NaN`}},
		"other sign":     {labels + `[[1,"1"],[2,"NaN"],[3,"-Inf"],[4,"0"]]}`, Difference{Values: 1, First: `series {"job":"a"} is -Inf at 3 instead of +Inf`}},
		"missing points": {labels + `[[2,"NaN"],[3,"+Inf"]]}`, Difference{MissingPoints: 2, First: `series {"job":"a"} has no point at 1`}},
		"other time":     {labels + `[[1.5,"1"],[2,"NaN"],[3,"+Inf"],[4,"0"]]}`, Difference{MissingPoints: 1, ExtraPoints: 1, First: `series {"job":"a"} has no point at 1`}},
		"a point more":   {labels + `[[1,"1"],[2,"NaN"],[3,"+Inf"],[4,"0"],[1700000000,"0"]]}`, Difference{ExtraPoints: 1, First: `series {"job":"a"} has a point at 1700000000 that is not wanted`}},
		"other series":   {`{"metric":{"job":"b"},"values":[[1,"1"]]}`, Difference{MissingSeries: 1, ExtraSeries: 1, First: `series {"job":"a"} is missing`}},
		"nothing":        {"", Difference{MissingSeries: 1, First: `series {"job":"a"} is missing`}},
	} {
		t.Run(name, func(t *testing.T) {
			d := Compare(want, parse(t, matrix(c.got)))
			require.Equal(t, c.want, d)
			require.Equal(t, c.want.First == "", d.Same())
		})
	}
}

func TestCompareNotices(t *testing.T) {
	body := func(notices string) *Matrix {
		return parse(t, Answer{Code: 200, Body: []byte(`{"status":"success",` + notices + `"data":{"resultType":"matrix","result":[]}}`)})
	}
	want := body(`"warnings":["w"],"infos":["i"],`)
	d := Compare(want, body(`"warnings":["w"],"infos":["i"],`))
	require.True(t, d.Same())
	d = Compare(want, body(`"warnings":["w"],`))
	require.False(t, d.Same())
	require.True(t, d.SameData())
	require.Contains(t, d.First, `["w"]`)
}

func TestAsk(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/query_range" || r.FormValue("query") != "up{}" {
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte("said"))
	}))
	defer server.Close()
	var buf bytes.Buffer
	a, err := Ask(t.Context(), server.URL, url.Values{"query": {"up{}"}}, &buf)
	require.NoError(t, err)
	require.NoError(t, a.Err())
	require.Equal(t, "said", string(a.Body))
	require.Positive(t, a.Took)
	kept := Answer{Code: 200, Body: bytes.Clone(a.Body)}
	require.True(t, kept.Equal(a))

	a, err = Ask(t.Context(), server.URL, nil, &buf)
	require.NoError(t, err)
	require.ErrorContains(t, a.Err(), "status 400: said")
	require.False(t, kept.Equal(a))

	server.Close()
	_, err = Ask(t.Context(), server.URL, nil, nil)
	require.Error(t, err)
}
