package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// changes returns the heading and the text of the part of CHANGELOG.md that is about this version.
func (r *Release) changes() (heading, text string, err error) {
	all, err := os.ReadFile(filepath.Join(r.Root, "CHANGELOG.md"))
	if err != nil {
		return "", "", err
	}
	for _, part := range strings.Split(string(all), "\n## ")[1:] {
		heading, text, _ := strings.Cut(part, "\n")
		if version, _, _ := strings.Cut(heading, ","); version == r.Version {
			return heading, strings.TrimSpace(text) + "\n", nil
		}
	}
	return "", "", fmt.Errorf("CHANGELOG.md has no part about %s: begin one with the line \"## %[1]s, YYYY-MM-DD\"", r.Version)
}

// relative are links to files of the repository.
var relative = regexp.MustCompile(`\]\(([a-zA-Z][^):]*)\)`)

// notes writes the release's notes, whose links name the repository as of the release.
func (r *Release) notes() error {
	_, text, err := r.changes()
	if err != nil {
		return err
	}
	text = relative.ReplaceAllString(text, "]("+repository+"/blob/v"+r.Version+"/$1)")
	return os.WriteFile(filepath.Join(r.Out, "promwarp-"+r.Version+"-notes.md"), []byte(text), 0o644)
}

// digests returns the SHA-256 of each file that has been written, in the order of names, which
// are paths below Out.
func (r *Release) digests() (names, sums []string, err error) {
	err = filepath.WalkDir(r.Out, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.Out, path)
		names, sums = append(names, filepath.ToSlash(name)), append(sums, fmt.Sprintf("%x", sha256.Sum256(b)))
		return err
	})
	return names, sums, err
}

// sums writes the checksums of all files, as sha256sum -c reads them.
func (r *Release) sums() error {
	names, sums, err := r.digests()
	if err != nil {
		return err
	}
	var text strings.Builder
	for i, name := range names {
		fmt.Fprintf(&text, "%s  %s\n", sums[i], name)
	}
	return os.WriteFile(filepath.Join(r.Out, "SHA256SUMS"), []byte(text.String()), 0o644)
}

// provenance writes which files were made of which commit by what, as an in-toto statement with
// SLSA's predicate. It has no time of the build, which would differ from one to the next, and no
// signature: a forge that builds the release adds one.
func (r *Release) provenance() error {
	names, sums, err := r.digests()
	if err != nil {
		return err
	}
	parameters, err := structpb.NewStruct(map[string]any{"version": r.Version, "SOURCE_DATE_EPOCH": r.Time.Unix()})
	if err != nil {
		return err
	}
	source := &intoto.ResourceDescriptor{Uri: "git+" + repository + "@" + r.Revision}
	if !strings.HasSuffix(r.Revision, "-dirty") {
		source.Digest = map[string]string{"gitCommit": r.Revision}
	}
	made := &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{
			BuildType:            repository + "/blob/main/deploy/README.md#releases",
			ExternalParameters:   parameters,
			ResolvedDependencies: []*intoto.ResourceDescriptor{source, {Name: "go", Uri: "pkg:generic/go@" + runtime.Version()[len("go"):]}},
		},
		RunDetails: &slsa.RunDetails{Builder: &slsa.Builder{Id: repository + "/tree/main/deploy/release"}},
	}
	statement := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: "https://slsa.dev/provenance/v1", Predicate: &structpb.Struct{}}
	for i, name := range names {
		statement.Subject = append(statement.Subject, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": sums[i]}})
	}
	predicate, err := protojson.Marshal(made)
	if err != nil {
		return err
	}
	if err := protojson.Unmarshal(predicate, statement.Predicate); err != nil {
		return err
	}
	return r.writeJSON("promwarp-"+r.Version+"-provenance.json", statement)
}

// writeJSON writes a message. protojson alone varies its spaces from one build to the next.
func (r *Release) writeJSON(name string, m proto.Message) error {
	text, err := protojson.Marshal(m)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, name), append(b.Bytes(), '\n'), 0o644)
}

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
