package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/units"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"go.yaml.in/yaml/v2"
)

// ByteSize is a number of bytes, written with a unit (4GiB, 512MB: both powers of two) or without.
type ByteSize int64

// UnmarshalText implements encoding.TextUnmarshaler, for flags and YAML.
func (b *ByteSize) UnmarshalText(text []byte) error {
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		*b = ByteSize(n)
		return nil
	}
	n, err := units.ParseBase2Bytes(string(text))
	if err != nil || n < 0 || n == math.MaxInt64 {
		return fmt.Errorf("not a size in bytes: %q; write one such as 4GiB or 512MiB", text)
	}
	*b = ByteSize(n)
	return nil
}

func (b ByteSize) String() string { return units.Base2Bytes(b).String() }

// List is a list that may also be given as one text, with commas.
type List []string

// UnmarshalText implements encoding.TextUnmarshaler, for flags.
func (l *List) UnmarshalText(text []byte) error {
	*l = nil
	for item := range strings.SplitSeq(string(text), ",") {
		if item = strings.TrimSpace(item); item != "" {
			*l = append(*l, item)
		}
	}
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *List) UnmarshalYAML(unmarshal func(any) error) error {
	var one string
	if unmarshal(&one) == nil {
		return l.UnmarshalText([]byte(one))
	}
	return unmarshal((*[]string)(l))
}

func (l List) String() string { return strings.Join(l, ",") }

// Ordinals are the driver's numbers of the devices to use; none are all.
func (s *GPUSettings) Ordinals() (all []int, err error) {
	for _, text := range s.Devices {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("gpu.devices: not the number of a GPU: %q; write them as promwarp devices does, with commas, such as 0,2", text)
		}
		all = append(all, n)
	}
	return all, nil
}

// followed is the text of a setting that follows the upstream's.
const followed = "auto"

// AutoDuration is a duration; 0 follows the upstream's.
type AutoDuration model.Duration

// UnmarshalText implements encoding.TextUnmarshaler, for flags and YAML.
func (d *AutoDuration) UnmarshalText(text []byte) error {
	if string(text) == followed {
		*d = 0
		return nil
	}
	v, err := model.ParseDuration(string(text))
	if err != nil || v == 0 {
		return fmt.Errorf("not a duration: %q; write one such as 15s, or %s for the upstream's", text, followed)
	}
	*d = AutoDuration(v)
	return nil
}

func (d AutoDuration) String() string {
	if d == 0 {
		return followed
	}
	return model.Duration(d).String()
}

// or returns the duration that is given, else the upstream's if that is known, else the other.
func (d AutoDuration) or(upstreams, other time.Duration) time.Duration {
	return cmp.Or(time.Duration(d), max(upstreams, 0), other)
}

// ExternalLabels say which labels the upstream adds to its series and what becomes of
// them. The zero value takes off the labels that its configuration has.
type ExternalLabels struct {
	Keep  bool
	Given string // the labels that are given, as JSON; empty for none
}

// keepLabels is the text of a setting that keeps external labels.
const keepLabels = "keep"

// UnmarshalText implements encoding.TextUnmarshaler, for flags and YAML.
func (e *ExternalLabels) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case followed:
		*e = ExternalLabels{}
	case keepLabels:
		*e = ExternalLabels{Keep: true}
	case "none":
		return e.set(map[string]string{})
	default:
		pairs := map[string]string{}
		for pair := range strings.SplitSeq(s, ",") {
			name, value, ok := strings.Cut(pair, "=")
			if name = strings.TrimSpace(name); !ok || name == "" {
				return fmt.Errorf("not external labels: %q; write name=value,name=value, or %s for those of the upstream's configuration, %s to leave them in answers, none where there are none", s, followed, keepLabels)
			}
			pairs[name] = strings.Trim(strings.TrimSpace(value), `"`)
		}
		return e.set(pairs)
	}
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler: a mapping gives the labels.
func (e *ExternalLabels) UnmarshalYAML(unmarshal func(any) error) error {
	var pairs map[string]string
	if unmarshal(&pairs) == nil {
		return e.set(pairs)
	}
	var text string
	if err := unmarshal(&text); err != nil {
		return err
	}
	return e.UnmarshalText([]byte(text))
}

func (e *ExternalLabels) set(pairs map[string]string) error {
	for name := range pairs {
		if !model.UTF8Validation.IsValidLabelName(name) || name == model.MetricNameLabel {
			return fmt.Errorf("%q cannot be the name of an external label", name)
		}
	}
	text, err := json.Marshal(pairs)
	*e = ExternalLabels{Given: string(text)}
	return err
}

// Labels returns the labels that are given, or nil.
func (e ExternalLabels) Labels() *labels.Labels {
	if e.Given == "" {
		return nil
	}
	pairs := map[string]string{}
	_ = json.Unmarshal([]byte(e.Given), &pairs) // it was made by set
	l := labels.FromMap(pairs)
	return &l
}

func (e ExternalLabels) String() string {
	switch l := e.Labels(); {
	case e.Keep:
		return keepLabels
	case l == nil:
		return followed
	case l.IsEmpty():
		return "none"
	default:
		text, _ := yaml.Marshal(l)
		return strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ",")
	}
}
