package resample

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
)

// FormOf reads a JSON object as the form that says the same: a text, a number or a truth value is
// one value, an array of them several. null is a field that is not there. What is wrong with the
// object is an *Error; errors of reading come as they are.
func FormOf(body io.Reader) (url.Values, error) {
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
			return nil, &Error{CodeRepeatedField, clip(name), "it is there twice", "leave one of them out"}
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, badJSON(err, "")
		}
		values, err := valuesOf(raw, name == "define")
		if err != nil {
			return nil, &Error{CodeInvalidValue, clip(name), err.Error(), ""}
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
		return &Error{Code: CodeBadJSON, Text: fmt.Sprintf("the body is no JSON: %v at byte %d", err, syntax.Offset)}
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Code: CodeBadJSON, Text: "the body ends before its JSON does"}
	case err != nil:
		return err
	}
	return &Error{Code: CodeBadJSON, Text: text}
}

// valuesOf are the values of a field. An empty list is one empty value: the field is there. Objects,
// where they may be values, stay JSON.
func valuesOf(raw json.RawMessage, objects bool) ([]string, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		items = []json.RawMessage{raw}
	}
	values := make([]string, 0, len(items))
	for _, item := range items {
		if objects && item[0] == '{' {
			values = append(values, string(item))
			continue
		}
		d := json.NewDecoder(bytes.NewReader(item))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		switch x := v.(type) {
		case string:
			values = append(values, x)
		case json.Number:
			values = append(values, x.String())
		case bool:
			values = append(values, fmt.Sprint(x))
		default:
			return nil, errors.New("it is neither a text, a number, true, false nor a list of these")
		}
	}
	if len(values) == 0 {
		values = append(values, "")
	}
	return values, nil
}
