package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the number of the image's user, as in images of distroless.
const user = 65532

// image writes the image of all static programs for Linux: as an OCI layout, which a registry
// takes, and for each architecture as a file for docker load.
func (r *Release) image(programs []program) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		if p.gpu || p.system != "linux" {
			continue
		}
		image, err := r.imageOf(p)
		if err != nil {
			return err
		}
		tag, err := name.NewTag(r.Image + ":" + r.Version)
		if err != nil {
			return err
		}
		if err := tarball.WriteToFile(filepath.Join(r.Out, "promwarp-"+r.Version+"-image-"+p.arch+".tar"), tag, image); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.system, Architecture: p.arch}},
		})
	}
	if manifest, err := index.IndexManifest(); err != nil || len(manifest.Manifests) == 0 {
		return err // no platform has an image
	}
	path, err := layout.Write(filepath.Join(r.Out, "promwarp-"+r.Version+"-oci"), empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.Version}))
}

// imageOf is the image of a program. docker/Dockerfile builds one like it, with the GPU's part.
func (r *Release) imageOf(p program) (v1.Image, error) {
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		OS: p.system, Architecture: p.arch, Created: v1.Time{Time: r.Time}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint:   []string{"/usr/bin/promwarp"},
			Cmd:          []string{"serve", "--config.file=/etc/promwarp/promwarp.yml"},
			User:         "65532:65532",
			Env:          []string{"PATH=/usr/bin", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", "XDG_CACHE_HOME=/var/lib/promwarp"},
			ExposedPorts: map[string]struct{}{"9201/tcp": {}},
			Volumes:      map[string]struct{}{"/var/lib/promwarp": {}},
			Healthcheck: &v1.HealthConfig{
				Test:     []string{"CMD", "/usr/bin/promwarp", "check", "healthy"},
				Interval: 5 * time.Second, Timeout: 6 * time.Second, StartPeriod: 5 * time.Minute, Retries: 6,
			},
			Labels: map[string]string{
				"org.opencontainers.image.title":    "promwarp",
				"org.opencontainers.image.source":   repository,
				"org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.version":  r.Version,
				"org.opencontainers.image.revision": r.Revision,
				"org.opencontainers.image.created":  r.Time.Format(time.RFC3339),
			},
		},
	})
	if err != nil {
		return nil, err
	}
	for _, l := range []struct {
		what  string
		files []file
	}{
		{"certificates, user and folders", []file{
			{to: "etc/passwd", mode: 0o644, text: "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"},
			{to: "etc/group", mode: 0o644, text: "root:x:0:\nnonroot:x:65532:\n"},
			{to: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, text: certificates()},
			{to: "home/nonroot/", mode: 0o700, owner: user},
			{to: "tmp/", mode: 0o1777},
			{to: "var/lib/promwarp/", mode: 0o755, owner: user},
		}},
		{"promwarp " + r.Version, []file{
			{to: "usr/bin/promwarp", mode: 0o755, from: p.path},
			{to: "usr/share/doc/promwarp/LICENSE", mode: 0o644, from: filepath.Join(r.Root, "LICENSE")},
		}},
	} {
		layer, err := r.layer(l.files)
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.Time}, CreatedBy: l.what}})
		if err != nil {
			return nil, err
		}
	}
	return image, nil
}

// layer is a layer of files.
func (r *Release) layer(files []file) (v1.Layer, error) {
	var b bytes.Buffer
	if err := r.tar(&b, files); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// certificates are the roots that Mozilla trusts without a condition, which a file could not hold.
func certificates() string {
	var text strings.Builder
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return text.String()
}
