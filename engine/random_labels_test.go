package engine

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// anyLabels applies a function of labels, mostly one that leaves series apart.
func anyLabels(r *rand.Rand, in string) string {
	name := func() string {
		return oneOf(r, "job", "instance", "version", "__name__", "le", "nope", "other", "other")
	}
	if r.IntN(3) == 0 {
		args := []string{in, fmt.Sprintf("%q", oneOf(r, "other", "new", "new", "instance", "__name__", "__type__", "")), oneOf(r, `"-"`, `""`, `"ü"`)}
		for range r.IntN(4) {
			args = append(args, fmt.Sprintf("%q", name()))
		}
		return "label_join(" + strings.Join(args, ", ") + ")"
	}
	dest := oneOf(r, "other", "other", "new", "job", "instance", "__name__", "__unit__", "version", "le", "ü 1", "")
	template := oneOf(r, "$1", "$1", "x$1", "${1}x", "$0", "", "const", "$name", "$9")
	pattern := oneOf(r, "(.*)", "(.+)", "j(.)", "i([01])", ".*([0-9])", "", "(?P<name>.).*", "(.*)_total", "x|j1", "(")
	return fmt.Sprintf("label_replace(%s, %q, %q, %q, %q)", in, dest, template, name(), pattern)
}

// anySort applies a function that sorts.
func anySort(r *rand.Rand, in string) string {
	name := oneOf(r, "sort", "sort_desc", "sort_by_label", "sort_by_label_desc")
	if strings.Contains(name, "label") {
		in += oneOf(r, "", `, "instance"`, `, "nope", "job"`, `, "__name__", "version"`)
	}
	return name + "(" + in + ")"
}
