package config

import (
	"bytes"
	"fmt"
	"regexp"

	"go.yaml.in/yaml/v2"
)

// saysLine matches an error that says its line.
var saysLine = regexp.MustCompile(`^line \d+: `)

// placed adds to err, why text is no configuration, which setting or line it is about, where
// err does not say. The YAML decoder does not for values that it leaves to their types.
func placed(text []byte, err error) error {
	if saysLine.MatchString(err.Error()) {
		return err
	}
	if place := wrongSetting(text, err.Error()); place != "" {
		return fmt.Errorf("%s: %w", place, err)
	}
	if line := wrongLine(text, err.Error()); line > 0 {
		return fmt.Errorf("line %d: %w", line, err)
	}
	return err
}

// fails reports whether a document is no configuration for the given reason.
func fails(document any, why string) bool {
	text, err := yaml.Marshal(document)
	if err != nil {
		return false
	}
	s := Default()
	err = yaml.UnmarshalStrict(text, &s)
	return err != nil && explainYAML(err).Error() == why
}

// wrongSetting is the setting, or the entry of a list, that fails for the given reason even if
// it stands alone; empty if there is none.
func wrongSetting(text []byte, why string) string {
	var document yaml.MapSlice
	if yaml.Unmarshal(text, &document) != nil {
		return ""
	}
	for _, section := range document {
		if !fails(yaml.MapSlice{section}, why) {
			continue
		}
		switch v := section.Value.(type) {
		case yaml.MapSlice:
			for _, setting := range v {
				if fails(yaml.MapSlice{{Key: section.Key, Value: yaml.MapSlice{setting}}}, why) {
					return fmt.Sprintf("%v.%v", section.Key, setting.Key)
				}
			}
		case []any:
			for i, entry := range v {
				if fails(yaml.MapSlice{{Key: section.Key, Value: []any{entry}}}, why) {
					return fmt.Sprintf("%v: entry %d", section.Key, i+1)
				}
			}
		}
		return fmt.Sprint(section.Key)
	}
	return ""
}

// mostLines is up to which line wrongLine looks.
const mostLines = 1000

// wrongLine is the line, from 1 on, with which text begins to fail for the given reason; 0 if
// it is not found.
func wrongLine(text []byte, why string) int {
	end := 0
	for line := 1; line <= mostLines && end < len(text); line++ {
		if n := bytes.IndexByte(text[end:], '\n'); n >= 0 {
			end += n + 1
		} else {
			end = len(text)
		}
		s := Default()
		if err := yaml.UnmarshalStrict(text[:end], &s); err != nil && explainYAML(err).Error() == why {
			return line
		}
	}
	return 0
}
