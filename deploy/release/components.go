package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// components writes what a program is made of as a CycloneDX document: the modules whose packages
// are linked into it, as the program itself says, and Go's library.
func (r *Release) components(name, program string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	main := component(&debug.Module{Path: info.Main.Path, Version: "v" + r.Version})
	main.Type = cyclonedx.ComponentTypeApplication
	all := []cyclonedx.Component{component(&debug.Module{Path: "std", Version: strings.Replace(info.GoVersion, "go", "v", 1)})}
	uses := []string{all[0].BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			return fmt.Errorf("%s is replaced by %s: a release is built of modules as they were published", m.Path, m.Replace.Path)
		}
		c := component(m)
		// As go.sum has it: of the module's files and their names.
		c.Properties = &[]cyclonedx.Property{{Name: "go.sum", Value: m.Sum}}
		all, uses = append(all, c), append(uses, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.Time.Format(time.RFC3339), Component: &main}
	bom.Components = &all
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &uses}}
	out, err := os.Create(filepath.Join(r.Out, name))
	if err != nil {
		return err
	}
	if err := cyclonedx.NewBOMEncoder(out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// component is a module as a component.
func component(m *debug.Module) cyclonedx.Component {
	url := "pkg:golang/" + m.Path + "@" + strings.ReplaceAll(m.Version, "+", "%2B")
	return cyclonedx.Component{Type: cyclonedx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, BOMRef: url, PackageURL: url}
}
