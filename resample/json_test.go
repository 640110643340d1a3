package resample

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ExampleFormOf reads the JSON form of a request.
func ExampleFormOf() {
	form, err := FormOf(strings.NewReader(`{"metric": "node_load1", "every": "1h", "start": 0, "by": ["job", "zone"]}`), 1000)
	fmt.Println(form.Encode(), err)
	_, err = FormOf(strings.NewReader(`{"by": ["a", "b", "c"]}`), 2)
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
		"one definition":           {`{"define": { "name" : "x", "state": {"a": [1, {}]} }}`, url.Values{"define": {`{"name":"x","state":{"a": [1, {}]}}`}}},
		"an empty definition":      {`{"define": {}}`, url.Values{"define": {`{}`}}},
		"a definition with quotes": {`{"define": {"a\"b": "c\"d"}}`, url.Values{"define": {`{"a\"b":"c\"d"}`}}},
		"definitions":              {`{"define": [{"a": 1}, { "b" : 2 }, "text"]}`, url.Values{"define": {`{"a": 1}`, `{ "b" : 2 }`, "text"}}},
		"space around":             {" \n{ \"a\" : 1 } \n", url.Values{"a": {"1"}}},
	} {
		got, err := FormOf(strings.NewReader(c.body), 3)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

func TestFormOfIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ body, code, field string }{
		"nothing":                        {``, CodeBadJSON, ""},
		"no object":                      {`["a"]`, CodeBadJSON, ""},
		"a text":                         {`"a"`, CodeBadJSON, ""},
		"null":                           {`null`, CodeBadJSON, ""},
		"no JSON":                        {`{a}`, CodeBadJSON, ""},
		"cut off after the brace":        {`{`, CodeBadJSON, ""},
		"cut off after a name":           {`{"a"`, CodeBadJSON, ""},
		"cut off in a list":              {`{"a": ["b"`, CodeBadJSON, ""},
		"cut off in a list's item":       {`{"a": ["b`, CodeBadJSON, ""},
		"cut off in a definition":        {`{"define": {"a"`, CodeBadJSON, ""},
		"cut off behind a definition":    {`{"define": {"a": 1`, CodeBadJSON, ""},
		"something behind":               {`{} {}`, CodeBadJSON, ""},
		"a comma too many":               {`{"a": [1,]}`, CodeBadJSON, ""},
		"a name twice":                   {`{"a": 1, "a": 2}`, CodeRepeatedField, "a"},
		"an object":                      {`{"a": {}}`, CodeInvalidValue, "a"},
		"an object in a list":            {`{"a": [{}]}`, CodeInvalidValue, "a"},
		"a list in a list":               {`{"a": [["b"]]}`, CodeInvalidValue, "a"},
		"null in a list":                 {`{"a": [null]}`, CodeInvalidValue, "a"},
		"a list of definitions in one":   {`{"define": [[{}]]}`, CodeInvalidValue, "define"},
		"a list beyond the limit":        {`{"a": [1, 2, 3, 4]}`, CodeOutOfRange, "a"},
		"definitions beyond the limit":   {`{"define": [{}, {}, {}, {}]}`, CodeOutOfRange, "define"},
		"wrong from beyond the limit on": {`{"a": [1, 2, 3, !`, CodeOutOfRange, "a"},
	} {
		_, err := FormOf(strings.NewReader(c.body), 3)
		var wrong *Error
		require.ErrorAs(t, err, &wrong, name)
		require.Equal(t, c.code, wrong.Code, "%s: %v", name, err)
		require.Equal(t, c.field, wrong.Field, name)
		require.Less(t, len(wrong.Error()), 300, name)
	}
	broken := errors.New("it broke off")
	_, err := FormOf(io.MultiReader(strings.NewReader(`{"a": [1, `), failingReader{broken}), 3)
	require.Equal(t, broken, err, "errors of reading come as they are")
}

type failingReader struct{ err error }

func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// countingReader counts what is read of it, which does not end.
type countingReader struct{ read int }

func (r *countingReader) Read(b []byte) (int, error) {
	n := copy(b, strings.Repeat(`"x",`, 64))
	r.read += n
	return n, nil
}

// TestFormOfStops: a list beyond the limit is not read to its end.
func TestFormOfStops(t *testing.T) {
	endless := &countingReader{}
	_, err := FormOf(io.MultiReader(strings.NewReader(`{"match[]": [`), io.LimitReader(endless, 4<<20)), 1000)
	require.ErrorContains(t, err, "it lists more than 1000 items")
	require.Less(t, endless.read, 16<<10, "bytes")
}
