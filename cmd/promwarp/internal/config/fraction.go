package config

import (
	"fmt"
	"strconv"
)

// part is a number from 0 to 1.
type part float64

// UnmarshalText implements encoding.TextUnmarshaler, for flags and YAML.
func (p *part) UnmarshalText(text []byte) error {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return fmt.Errorf("not a part of the whole: %q; write a number from 0 to 1, such as 0.01", text)
	}
	*p = part(v)
	return nil
}

func (p part) String() string { return strconv.FormatFloat(float64(p), 'g', -1, 64) }

// fraction is a part above 0.
type fraction float64

// UnmarshalText implements encoding.TextUnmarshaler, for flags and YAML.
func (f *fraction) UnmarshalText(text []byte) error {
	var p part
	if p.UnmarshalText(text) != nil || p == 0 {
		return fmt.Errorf("not a fraction: %q; write one above 0 and at most 1, such as 0.8", text)
	}
	*f = fraction(p)
	return nil
}

func (f fraction) String() string { return part(f).String() }
