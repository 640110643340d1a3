package resampled

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/resample"
)

// Example_formOf reads the JSON form of a request.
func Example_formOf() {
	form, err := formOf(strings.NewReader(`{"metric": "node_load1", "every": "1h", "start": 0, "by": ["job", "zone"]}`), 1000)
	fmt.Println(form.Encode(), err)
	_, err = formOf(strings.NewReader(`{"by": ["a", "b", "c"]}`), 2)
	fmt.Println(err)
	// Output:
	// by=job&by=zone&every=1h&metric=node_load1&start=0 <nil>
	// invalid parameter "by": it lists more than 2 items, which is more than --query.max-selectors and --query.max-items allow; ask for less at once
}

func TestFormOf(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want url.Values
	}{
		"nothing":                  {`{}`, url.Values{}},
		"null is not there":        {`{"a": null, "b": "x"}`, url.Values{"b": {"x"}}},
		"an empty list is":         {`{"by": []}`, url.Values{"by": {""}}},
		"numbers as written":       {`{"a": 1.50, "b": 1e3, "c": -0, "d": 123456789012345678901234567890, "e": [1.50, 2]}`, url.Values{"a": {"1.50"}, "b": {"1e3"}, "c": {"-0"}, "d": {"123456789012345678901234567890"}, "e": {"1.50", "2"}}},
		"truth values":             {`{"a": true, "b": [false, true]}`, url.Values{"a": {"true"}, "b": {"false", "true"}}},
		"texts, escaped":           {`{"a": "\u00e4\"\n", "\u0062": ["{}", "[]"]}`, url.Values{"a": {"ä\"\n"}, "b": {"{}", "[]"}}},
		"a list at the limit":      {`{"a": ["1", "2", "3"], "b": ["1", "2", "3"]}`, url.Values{"a": {"1", "2", "3"}, "b": {"1", "2", "3"}}},
		"one definition":           {`{"define": { "name" : "x", "state": {"a": [1, {}]} }}`, url.Values{"define": {`{ "name" : "x", "state": {"a": [1, {}]} }`}}},
		"an empty definition":      {`{"define": {}}`, url.Values{"define": {`{}`}}},
		"a definition with quotes": {`{"define": {"a\"b": "c\"d"}}`, url.Values{"define": {`{"a\"b": "c\"d"}`}}},
		"definitions":              {`{"define": [{"a": 1}, { "b" : 2 }, "text"]}`, url.Values{"define": {`{"a": 1}`, `{ "b" : 2 }`, "text"}}},
		"space around":             {" \n{ \"a\" : 1 } \n", url.Values{"a": {"1"}}},
	} {
		got, err := formOf(strings.NewReader(c.body), 3)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

func TestFormOfIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ body, code, field string }{
		"nothing":                      {``, resample.CodeBadJSON, ""},
		"no object":                    {`["a"]`, resample.CodeBadJSON, ""},
		"a text":                       {`"a"`, resample.CodeBadJSON, ""},
		"null":                         {`null`, resample.CodeBadJSON, ""},
		"no JSON":                      {`{a}`, resample.CodeBadJSON, ""},
		"cut off after the brace":      {`{`, resample.CodeBadJSON, ""},
		"cut off after a name":         {`{"a"`, resample.CodeBadJSON, ""},
		"cut off in a list":            {`{"a": ["b"`, resample.CodeBadJSON, ""},
		"cut off in a list's item":     {`{"a": ["b`, resample.CodeBadJSON, ""},
		"cut off in a definition":      {`{"define": {"a"`, resample.CodeBadJSON, ""},
		"cut off behind a definition":  {`{"define": {"a": 1`, resample.CodeBadJSON, ""},
		"something behind":             {`{} {}`, resample.CodeBadJSON, ""},
		"a comma too many":             {`{"a": [1,]}`, resample.CodeBadJSON, ""},
		"an object":                    {`{"a": {}}`, resample.CodeInvalidValue, "a"},
		"an object in a list":          {`{"a": [{}]}`, resample.CodeInvalidValue, "a"},
		"a list in a list":             {`{"a": [["b"]]}`, resample.CodeInvalidValue, "a"},
		"null in a list":               {`{"a": [null]}`, resample.CodeInvalidValue, "a"},
		"a list of definitions in one": {`{"define": [[{}]]}`, resample.CodeInvalidValue, "define"},
		"a list beyond the limit":      {`{"a": [1, 2, 3, 4]}`, resample.CodeOutOfRange, "a"},
		"definitions beyond the limit": {`{"define": [{}, {}, {}, {}]}`, resample.CodeOutOfRange, "define"},
	} {
		_, err := formOf(strings.NewReader(c.body), 3)
		var wrong *resample.Error
		require.ErrorAs(t, err, &wrong, name)
		require.Equal(t, c.code, wrong.Code, "%s: %v", name, err)
		require.Equal(t, c.field, wrong.Field, name)
		require.Less(t, len(wrong.Error()), 300, name)
	}
	broken := errors.New("it broke off")
	_, err := formOf(io.MultiReader(strings.NewReader(`{"a": [1, `), failingReader{broken}), 3)
	require.Equal(t, broken, err, "errors of reading come as they are")
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// FuzzJSON reads any body.
func FuzzJSON(f *testing.F) {
	f.Add(`{"metric":"m","start":"-1h","every":"5m","aggregates":["sum","rate:95pct"],"by":[],"explain":true,"limit":3,"fill":null}`)
	f.Add(`{"match[]":["a{b=\"c\"}"],"start":1.5e9,"every":60,"aggregates":"mean"} `)
	f.Add(`[[[[{"":1}]]]]`)
	f.Add("{\"a\":\"\\ud800\",\"\\u0000\":-0e-999}")
	f.Fuzz(func(t *testing.T, body string) {
		form, err := formOf(strings.NewReader(body), 1000)
		if err != nil {
			var wrong *resample.Error
			require.True(t, errors.As(err, &wrong), err)
			return
		}
		for _, values := range form {
			require.NotEmpty(t, values)
		}
	})
}
