package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// rooms are the folders below kernels that have kernels, each above those that it includes from.
// Queries need the first five.
var rooms = []string{"decode", "values", "window", "group", "resample", "custom", "probe", "historic"}

// kernel is what the source of one says.
type kernel struct {
	room, name string
	source     string      // path of the source
	files      []string    // that the source includes, the source itself last
	params     []parameter // in the kernel's order
	waits      bool        // its threads may wait for each other
}

// parameter is a parameter of a kernel, or a list that several kernels have in common.
type parameter struct {
	kind string // as in C++, without __restrict__
	name string

	list  string // the macro's name, such as WINDOW_PARAMETERS; kind and name are empty
	parts []parameter
}

// ptx is the path of what the kernel is compiled to, below the root.
func (k *kernel) ptx() string { return filepath.Join("kernels", "ptx", k.name+".ptx") }

// parseAll returns the kernels below root, in the order of their rooms and names.
func parseAll(root string) (all []*kernel, err error) {
	for _, room := range rooms {
		sources, err := filepath.Glob(filepath.Join(root, "kernels", room, "*.cu"))
		if err != nil || len(sources) == 0 {
			return nil, fmt.Errorf("no kernels in %s: run this in the repository's root (%v)", room, err)
		}
		for _, source := range sources {
			k, err := parse(room, source)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", source, err)
			}
			all = append(all, k)
		}
	}
	return all, nil
}

var (
	entry   = regexp.MustCompile(`(?m)^KERNEL (?:MAX_THREADS\(\d+\) |[A-Z_]+_THREADS )?([a-z0-9_]+)\(([^()]*)\) \{`)
	list    = regexp.MustCompile(`(?m)^#define ([A-Z_]+_PARAMETERS)((?:.*\\\n)*.*)$`)
	include = regexp.MustCompile(`(?m)^#include "([^"]+)"`)
	waiting = regexp.MustCompile(`\b(barrier|shuffle_down|shuffle_xor)\(`)
)

// parse reads the source of a kernel, and what it includes.
func parse(room, source string) (*kernel, error) {
	k := &kernel{room: room, source: source, name: strings.TrimSuffix(filepath.Base(source), ".cu")}
	lists := map[string][]parameter{}
	if err := k.read(source, lists); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return nil, err
	}
	found := entry.FindAllSubmatch(text, -1)
	if len(found) != 1 || string(found[0][1]) != k.name {
		return nil, fmt.Errorf("there must be one kernel, and it must have the name of the file")
	}
	k.params, err = parameters(string(found[0][2]), lists)
	return k, err
}

// read notes a file, after all that it includes, and the lists of parameters in it.
func (k *kernel) read(path string, lists map[string][]parameter) error {
	if slices.Contains(k.files, path) {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for _, m := range include.FindAllSubmatch(text, -1) {
		in := filepath.Join(filepath.Dir(path), string(m[1]))
		if filepath.Base(filepath.Dir(in)) == "host" {
			continue // the other half of compiler.h
		}
		if err := k.read(in, lists); err != nil {
			return err
		}
	}
	for _, m := range list.FindAllSubmatch(text, -1) {
		params, err := parameters(strings.ReplaceAll(string(m[2]), "\\\n", " "), nil)
		if err != nil {
			return err
		}
		lists[string(m[1])] = params
	}
	if filepath.Base(path) != "compiler.h" && waiting.Match(text) {
		k.waits = true
	}
	k.files = append(k.files, path)
	return nil
}

// parameters parses a list of parameters, in which macros may stand for others.
func parameters(text string, lists map[string][]parameter) (all []parameter, err error) {
	for one := range strings.SplitSeq(text, ",") {
		one = strings.Join(strings.Fields(strings.ReplaceAll(one, "__restrict__", " ")), " ")
		if parts, ok := lists[one]; ok {
			all = append(all, parameter{list: one, parts: parts})
			continue
		}
		at := strings.LastIndexAny(one, " *")
		if at < 0 {
			return nil, fmt.Errorf("%q is no parameter", one)
		}
		kind := strings.ReplaceAll(strings.TrimSpace(one[:at+1]), " *", "*")
		all = append(all, parameter{kind: kind, name: one[at+1:]})
	}
	return all, nil
}
