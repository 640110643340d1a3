package compare

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

// parse reads a server's answer to PromQL.
func parse(status int, body []byte) (*Answer, error) {
	r, err := ReadReply(status, body)
	if err != nil {
		return nil, err
	}
	return r.Answer()
}

// Example compares what two servers answer.
func Example() {
	want, _ := parse(http.StatusOK, []byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"job":"a"},"value":[60,"1"]}]}}`))
	got, _ := parse(http.StatusOK, []byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"job":"a"},"value":[60,"2"]}]}}`))
	fmt.Println(Differ(want, got, 0))
	// Output: value 2 instead of 1 at 60 of {job="a"}
}

// TestDiffer names the first difference of two answers, and finds none where there is none.
func TestDiffer(t *testing.T) {
	const one, two = `{"metric":{"i":"1"},"values":`, `{"metric":{"i":"2"},"values":`
	matrix := func(rows string) string { return `"data":{"resultType":"matrix","result":[` + rows + `]}` }
	vector := func(rows string) string { return `"data":{"resultType":"vector","result":[` + rows + `]}` }
	hist := func(count string) string {
		return vector(`{"metric":{},"histogram":[1,{"count":` + count + `,"sum":"1","buckets":[[3,"-1","1","2"]]}]}`)
	}
	a := matrix(one + `[[1,"1"],[2,"NaN"],[3,"+Inf"],[4,"0"]]}`)
	for name, c := range map[string]struct {
		want, got string
		tolerance float64
		says      string
	}{
		"same":             {a, a, 0, ""},
		"other spaces":     {a, " " + a + " ", 0, ""},
		"a bit":            {matrix(one + `[[1,"1"]]}`), matrix(one + `[[1,"1.0000000000000002"]]}`), 0, `value 1.0000000000000002 instead of 1 at 1 of {i="1"}`},
		"within tolerance": {matrix(one + `[[1,"1"]]}`), matrix(one + `[[1,"1.0000000000000002"]]}`), plan.Tolerance, ""},
		"beyond tolerance": {matrix(one + `[[1,"1"]]}`), matrix(one + `[[1,"1.000000001"]]}`), plan.Tolerance, "value 1.000000001"},
		"a sign":           {`"data":{"resultType":"scalar","result":[1,"0"]}`, `"data":{"resultType":"scalar","result":[1,"-0"]}`, 0, "value -0 instead of 0 at 1 of {}"},
		"an infinity":      {a, matrix(one + `[[1,"1"],[2,"NaN"],[3,"1e308"],[4,"0"]]}`), plan.Tolerance, "value 1e+308 instead of +Inf at 3"},
		"a number":         {a, matrix(one + `[[1,"1"],[2,"0"]]}`), plan.Tolerance, "value 0 instead of NaN at 2"},
		"a point fewer":    {a, matrix(one + `[[2,"NaN"],[3,"+Inf"],[4,"0"]]}`), 0, "value no value instead of 1 at 1"},
		"the last fewer":   {a, matrix(one + `[[1,"1"],[2,"NaN"],[3,"+Inf"]]}`), 0, "value no value instead of 0 at 4"},
		"a point more":     {matrix(one + `[[1,"1"]]}`), matrix(one + `[[1,"1"],[1.5,"1"]]}`), 0, "value 1 instead of no value at 1.5"},
		"another series":   {a, matrix(two + `[[1,"1"]]}`), 0, `series {i="2"} instead of {i="1"}`},
		"a series more":    {a, matrix(one + `[[1,"1"]]},` + two + `[[1,"1"]]}`), 0, "number of series 2 instead of 1"},
		"order": {vector(`{"metric":{"i":"1"},"value":[1,"1"]},{"metric":{"i":"2"},"value":[1,"2"]}`),
			vector(`{"metric":{"i":"2"},"value":[1,"2"]},{"metric":{"i":"1"},"value":[1,"1"]}`), 0, "series"},
		"another type":      {a, vector(""), 0, "type vector instead of matrix"},
		"a string":          {`"data":{"resultType":"string","result":[1,"a"]}`, `"data":{"resultType":"string","result":[1,"b"]}`, 0, `text "b" instead of "a"`},
		"a histogram":       {hist(`"2"`), hist(`"3"`), 0, "Count: 3"},
		"the histogram":     {hist(`"2"`), hist(`"2"`), 0, ""},
		"no histogram":      {hist(`"2"`), vector(`{"metric":{}}`), 0, "value no value instead of Count: 2"},
		"a warning":         {`"warnings":["w"],` + a, a, 0, `warnings [] instead of ["w"]`},
		"order of warnings": {`"warnings":["v","w"],"infos":["i"],` + a, `"warnings":["w","v"],"infos":["i"],` + a, 0, ""},
		"another info":      {`"infos":["w"],` + a, `"infos":["v"],` + a, 0, `infos ["v"] instead of ["w"]`},
	} {
		t.Run(name, func(t *testing.T) {
			want, err := parse(200, []byte(`{"status":"success",`+c.want+`}`))
			require.NoError(t, err)
			got, err := parse(200, []byte(`{"status":"success",`+c.got+`}`))
			require.NoError(t, err)
			d := Differ(want, got, c.tolerance)
			if c.says == "" {
				require.Nil(t, d)
				return
			}
			require.NotNil(t, d)
			require.Contains(t, d.String(), c.says)
		})
	}
}

// TestParseRefuses: what is no answer is an error, and one of Prometheus's form is a Refused.
func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ body, says string }{
		"no JSON":        {"hello", "hello"},
		"a table":        {`{"status":"success","data":{"resultType":"table"}}`, "no known type"},
		"a worded time":  {`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[noon,"1"]]}]}}`, "invalid"},
		"a worded value": {`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b"},"values":[[1,"much"]]}]}}`, `{a="b"}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(200, []byte(c.body))
			require.ErrorContains(t, err, c.says)
		})
	}
	_, err := parse(422, []byte(`{"status":"error","errorType":"execution","error":"too slow"}`))
	require.Equal(t, &Refused{422, "execution", "too slow"}, err)
}

// TestRead: values of all types, read byte by byte.
func TestRead(t *testing.T) {
	const histogram = `{"count":"2","sum":"3","buckets":[[0,"1","2","2"]]}`
	for text, want := range map[string]string{
		`{"resultType":"scalar","result":[1.5,"2"]}`:                                                                        `scalar "" [{{} [2 @[1500]] []}]`,
		`{"resultType":"string","result":[1,"a\"b"]}`:                                                                       `string "a\"b" []`,
		`{"resultType":"vector","result":[],"stats":{"x":1}}`:                                                               `vector "" []`,
		`{"resultType":"vector","result":[{"metric":{"a":"µ\n"},"value":[1700000000.001,"NaN"]}]}`:                          `vector "" [{{a="µ\n"} [NaN @[1700000000001]] []}]`,
		`{"resultType":"vector","result":[{"metric":{},"histogram":[2,` + histogram + `]}]}`:                                `vector "" [{{} [] [{2000 Count: 2.000000, Sum: 3.000000, Buckets: [(1,2]:2] 2 3}]}]`,
		`{"resultType":"matrix","result":[{"metric":{},"values":[[1,"-Inf"],[2,"2.5"]]},{"metric":{},"values":[[1,"0"]]}]}`: `matrix "" [{{} [-Inf @[1000] 2.5 @[2000]] []} {{} [0 @[1000]] []}]`,
	} {
		var a Answer
		var all []Series
		require.NoError(t, a.Read(iotest.OneByteReader(strings.NewReader(text)), func(s Series) error {
			all = append(all, s)
			return nil
		}), text)
		require.Equal(t, want, fmt.Sprintf("%s %q %v", a.Type, a.Text, all))
	}
	for text, want := range map[string]string{
		`{"result":[1,"2"]}`:                                                           "of no known type",
		`{"resultType":"streams","result":[]}`:                                         `of no known type, but "streams"`,
		`{"resultType":"scalar","result":[1,"two"]}`:                                   "the value of a point",
		`{"resultType":"matrix","result":[{"metric":1}]}`:                              "ReadMapCB",
		`{"resultType":"vector","result":[{"metric":{},"histogram":[1,{"count":2}]}]}`: "series {}: ",
		`[]`: "ReadObject",
		"":   "ReadObject",
	} {
		err := new(Answer).Read(strings.NewReader(text), func(Series) error { return nil })
		require.ErrorContains(t, err, want, text)
	}
	full := errors.New("full")
	require.Equal(t, full, new(Answer).Read(strings.NewReader(`{"resultType":"scalar","result":[1,"2"]}`), func(Series) error { return full }))
}

// answers answers with one value after the other, the last again and again. An error is a value's.
func answers(values ...any) Side {
	return func(context.Context) (*Answer, error) {
		v := values[0]
		if len(values) > 1 {
			values = values[1:]
		}
		if err, failed := v.(error); failed {
			return nil, err
		}
		a, err := (&Reply{Data: []byte(`{"resultType":"scalar","result":[1,"` + v.(string) + `"]}`)}).Answer()
		a.Took = time.Millisecond
		return a, err
	}
}

func TestMeasure(t *testing.T) {
	refused, otherwise := &Refused{Status: 400, Text: "no"}, &Refused{Status: 422, Text: "never"}
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		prometheus, promwarp Side
		want                 Verdict
		detail               string
	}{
		"the same":                    {answers("1"), answers("1"), Same, ""},
		"another value":               {answers("1"), answers("2"), Different, "value 2 instead of 1 at 1 of {}"},
		"another value later":         {answers("1"), answers("1", "2"), Different, "value 2"},
		"samples that came meanwhile": {answers("1", "1", "2"), answers("2"), Same, ""},
		"samples that keep coming":    {answers("1", "2", "3", "4", "5", "6"), answers("0"), Undecided, "differently each time"},
		"both refuse":                 {answers(refused), answers(refused), Same, "both refuse: no"},
		"both refuse differently":     {answers(refused), answers(otherwise), Different, "promwarp refuses: never"},
		"promwarp fails":              {answers("1"), answers(broken), Different, "promwarp: broken"},
		"promwarp fails later":        {answers("1"), answers("1", broken), Different, "promwarp: broken"},
		"Prometheus fails":            {answers(broken), answers("1"), NotCompared, "Prometheus: broken"},
		"both fail":                   {answers(broken), answers(broken), NotCompared, "Prometheus: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			row, err := Measure(t.Context(), c.prometheus, c.promwarp, Rounds{Prometheus: 2, Repeated: 2})
			require.NoError(t, err)
			require.Equal(t, c.want, row.Verdict)
			require.Contains(t, row.Detail, c.detail)
			require.Equal(t, c.detail == "", row.Detail == "")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Measure(ctx, answers(broken), answers(broken), Rounds{Prometheus: 1, Repeated: 1})
	require.ErrorIs(t, err, context.Canceled)
}
