package resample

import "fmt"

// Error is the error of a request that is wrong. Nothing was computed.
type Error struct {
	Code  string // one of the codes below, which stay as they are
	Field string // as the request names it; empty if it is none of them
	Text  string // what is wrong
	Hint  string // what to do; may be empty
}

// The codes of errors.
const (
	CodeBadJSON          = "bad_json"          // the body is no JSON object of fields
	CodeUnknownField     = "unknown_field"     // there is no such field
	CodeRepeatedField    = "repeated_field"    // a field is there twice, or under two names
	CodeMissingField     = "missing_field"     // a field that must be there is not
	CodeConflict         = "conflict"          // two fields exclude each other
	CodeInvalidValue     = "invalid_value"     // a value does not parse
	CodeOutOfRange       = "out_of_range"      // a value parses and cannot be
	CodeInvalidAggregate = "invalid_aggregate" // an aggregate that the request defines is wrong
	CodeUnknownAggregate = "unknown_aggregate" // there is no such aggregate
	CodeUnknownZone      = "unknown_zone"      // there is no such time zone
	CodeTooManyBuckets   = "too_many_buckets"  // the range has more than bucket.MaxBuckets
	CodeEmptyRange       = "empty_range"       // end is not after start, or no bucket fits
	CodeLabelClash       = "label_clash"       // a label of a series has a name that the answer needs
	CodeTooManyColumns   = "too_many_columns"  // the wide layout of the answer has more columns than can be
	CodeUnsupported      = "unsupported"       // what the request asks for cannot be had here
)

// Codes are the codes of all errors.
var Codes = []string{
	CodeBadJSON, CodeUnknownField, CodeRepeatedField, CodeMissingField, CodeConflict, CodeInvalidValue, CodeOutOfRange, CodeInvalidAggregate, CodeUnknownAggregate,
	CodeUnknownZone, CodeTooManyBuckets, CodeEmptyRange, CodeLabelClash, CodeTooManyColumns, CodeUnsupported,
}

func (e *Error) Error() string {
	text := e.Text
	if e.Field != "" {
		text = fmt.Sprintf("invalid parameter %q: %s", e.Field, e.Text)
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}
