package resampled

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/promwarp/promwarp/resample"
)

// formOf reads a JSON object as the form that says the same: a text, a number or a truth value is
// one value, an array of them several, at most so many. null is a field that is not there. What is
// wrong with the object is a *resample.Error; errors of reading come as they are.
func formOf(body io.Reader, mostValues int) (url.Values, error) {
	d := json.NewDecoder(body)
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, badJSON(err, "the body is no JSON object")
	}
	form := url.Values{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, badJSON(err, "")
		}
		name, _ := t.(string) // a key always is
		if _, twice := form[name]; twice {
			return nil, &resample.Error{Code: resample.CodeRepeatedField, Field: clipped(name), Text: "it is there twice", Hint: "leave one of them out"}
		}
		values, err := valuesOf(d, name, mostValues)
		if err != nil {
			return nil, err
		}
		if values != nil {
			form[name] = values
		}
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, badJSON(err, "")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, badJSON(err, "there is something behind the JSON object")
	}
	return form, nil
}

// badJSON is the error of a body, unless reading it has failed.
func badJSON(err error, text string) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return &resample.Error{Code: resample.CodeBadJSON, Text: fmt.Sprintf("the body is no JSON: %v at byte %d", err, syntax.Offset)}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &resample.Error{Code: resample.CodeBadJSON, Text: "the body ends before its JSON does"}
	case err != nil:
		return err
	}
	return &resample.Error{Code: resample.CodeBadJSON, Text: text}
}

// valuesOf reads the values of a field. An empty list is one empty value: the field is there. A list
// is read to its limit, whatever follows.
func valuesOf(d *json.Decoder, name string, most int) ([]string, error) {
	if name == "define" { // an object stays JSON
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, badJSON(err, "")
		}
		if raw[0] == '{' {
			return []string{string(raw)}, nil
		}
		d = json.NewDecoder(bytes.NewReader(raw))
	}
	t, err := d.Token()
	switch {
	case err != nil:
		return nil, badJSON(err, "")
	case t == nil:
		return nil, nil
	case t != json.Delim('['):
		text, err := textOf(name, t)
		return []string{text}, err
	}
	values := []string{}
	for d.More() {
		if len(values) == most {
			return nil, &resample.Error{Code: resample.CodeOutOfRange, Field: clipped(name), Text: fmt.Sprintf("it lists more than %d items, which is more than --query.max-selectors and --query.max-items allow", most), Hint: "ask for less at once"}
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, badJSON(err, "")
		}
		if name == "define" && raw[0] == '{' {
			values = append(values, string(raw))
			continue
		}
		item := json.NewDecoder(bytes.NewReader(raw))
		item.UseNumber()
		t, _ := item.Token() // it was decoded once
		text, err := textOf(name, t)
		if err != nil {
			return nil, err
		}
		values = append(values, text)
	}
	if _, err := d.Token(); err != nil { // the closing bracket
		return nil, badJSON(err, "")
	}
	if len(values) == 0 {
		values = append(values, "")
	}
	return values, nil
}

// textOf is the text of a token that is a value.
func textOf(name string, t json.Token) (string, error) {
	switch x := t.(type) {
	case string:
		return x, nil
	case json.Number:
		return x.String(), nil
	case bool:
		return fmt.Sprint(x), nil
	}
	return "", &resample.Error{Code: resample.CodeInvalidValue, Field: clipped(name), Text: "it is neither a text, a number, true, false nor a list of these"}
}

// clipped is the beginning of a name that may be very long.
func clipped(name string) string { return fmt.Sprintf("%.100s", name) }
