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
// one value, an array of them several, at most mostValues. null is a field that is not there. What is
// wrong with the object is a *resample.Error; errors of reading come as they are.
func formOf(body io.Reader, mostValues int) (url.Values, error) {
	d := json.NewDecoder(body)
	var object map[string]json.RawMessage
	if err := d.Decode(&object); err != nil || object == nil {
		return nil, badJSON(err, "the body is no JSON object")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, badJSON(err, "there is something behind the JSON object")
	}
	form := url.Values{}
	for name, raw := range object {
		values, err := valuesOf(name, raw, mostValues)
		if err != nil {
			return nil, err
		}
		if values != nil {
			form[name] = values
		}
	}
	return form, nil
}

// badJSON is the error of a body, unless reading it has failed.
func badJSON(err error, text string) error {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		text = fmt.Sprintf("the body is no JSON: %v at byte %d", err, syntax.Offset)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		text = "the body ends before its JSON does"
	case err != nil && !errors.As(err, new(*json.UnmarshalTypeError)):
		return err
	}
	return &resample.Error{Code: resample.CodeBadJSON, Text: text}
}

// valuesOf reads the values of a field. An empty list is one empty value: the field is there. No more of
// a list is read than its limit.
func valuesOf(name string, raw json.RawMessage, most int) (values []string, err error) {
	switch raw[0] {
	case 'n': // null
		return nil, nil
	case '[':
	default:
		text, err := textOf(name, raw)
		return []string{text}, err
	}
	d := json.NewDecoder(bytes.NewReader(raw)) // which was decoded once
	_, _ = d.Token()
	for d.More() {
		if len(values) == most {
			return nil, &resample.Error{Code: resample.CodeOutOfRange, Field: clipped(name), Text: fmt.Sprintf("it lists more than %d items, which is more than --query.max-selectors and --query.max-items allow", most), Hint: "ask for less at once"}
		}
		var item json.RawMessage
		_ = d.Decode(&item)
		text, err := textOf(name, item)
		if err != nil {
			return nil, err
		}
		values = append(values, text)
	}
	if len(values) == 0 {
		values = []string{""}
	}
	return values, nil
}

// textOf is the text of a value: a number or a truth value as it is written, and so is the object that is
// a definition.
func textOf(name string, raw json.RawMessage) (text string, err error) {
	switch c := raw[0]; {
	case c == '"':
		err = json.Unmarshal(raw, &text)
		return text, err
	case c == '{' && name == "define", c == 't', c == 'f', c == '-', '0' <= c && c <= '9':
		return string(raw), nil
	}
	return "", &resample.Error{Code: resample.CodeInvalidValue, Field: clipped(name), Text: "it is neither a text, a number, true, false nor a list of these"}
}

// clipped is the beginning of a name that may be very long.
func clipped(name string) string { return fmt.Sprintf("%.100s", name) }
