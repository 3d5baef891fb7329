package imagearchive

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/distribution/reference"

	"github.com/open-nomad/open-nomad/internal/ctxreader"
)

// manifest is an entry of manifest.json.
type manifest struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// descriptor names a blob of an image layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Annotations map[string]string `json:"annotations"`
}

// Annotations of index.json that name an image.
const (
	fullName = "io.containerd.image.name"
	refName  = "org.opencontainers.image.ref.name"
)

// manifest returns the manifest of the only image of the archive, with ref as its only name.
func (a *archive) manifest(ref string) (*manifest, error) {
	if _, has := a.parts[manifestName]; !has {
		return a.layout(ref)
	}
	var list []manifest
	if err := a.decode(manifestName, &list); err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("the archive has %d images: it must have one, the image of the task", len(list))
	}
	m := list[0]
	if len(m.RepoTags) == 0 {
		return nil, fmt.Errorf("the archive does not name its image %s: save it by its name", ref)
	}
	for _, tag := range m.RepoTags {
		if err := same(tag, ref); err != nil {
			return nil, err
		}
	}
	m.RepoTags = []string{ref}
	return &m, nil
}

// same returns an error unless a name means ref.
func same(name, ref string) error {
	got, err := reference.ParseDockerRef(name)
	if err != nil || got.String() != ref {
		return fmt.Errorf("the archive has an image called %.200q: it must have no other name than that of the task's image, %s", name, ref)
	}
	return nil
}

// layout returns the manifest of the only image of an image layout.
func (a *archive) layout(ref string) (*manifest, error) {
	var index struct {
		Manifests []descriptor `json:"manifests"`
	}
	if _, has := a.parts[indexName]; !has {
		return nil, errors.New("the archive has no manifest.json and no index.json: it is not an archive of an image")
	}
	if err := a.decode(indexName, &index); err != nil {
		return nil, err
	}
	if len(index.Manifests) != 1 {
		return nil, fmt.Errorf("the archive has %d images: it must have one, the image of the task", len(index.Manifests))
	}
	d := index.Manifests[0]
	name := d.Annotations[fullName]
	if name == "" {
		name = d.Annotations[refName]
	}
	if err := same(name, ref); err != nil {
		return nil, err
	}
	var of struct {
		Config descriptor   `json:"config"`
		Layers []descriptor `json:"layers"`
	}
	blob, err := a.blob(d.Digest)
	if err == nil {
		err = a.decode(blob, &of)
	}
	if err != nil {
		return nil, err
	}
	if of.Config.Digest == "" {
		return nil, errors.New("the archive has an index of several platforms: save the image for one platform")
	}
	m := &manifest{RepoTags: []string{ref}}
	if m.Config, err = a.blob(of.Config.Digest); err != nil {
		return nil, err
	}
	for _, l := range of.Layers {
		name, err := a.blob(l.Digest)
		if err != nil {
			return nil, err
		}
		m.Layers = append(m.Layers, name)
	}
	return m, nil
}

// blob returns the name of a blob, which the archive must have.
func (a *archive) blob(digest string) (string, error) {
	sum, ok := strings.CutPrefix(digest, "sha256:")
	name := "blobs/sha256/" + sum
	p, has := a.parts[name]
	if !ok || !has {
		return "", fmt.Errorf("the archive has no file for the digest %.100q", digest)
	}
	h := sha256.New()
	if _, err := io.Copy(h, a.reader(p)); err != nil {
		return "", err
	}
	if hex.EncodeToString(h.Sum(nil)) != sum {
		return "", fmt.Errorf("the file for the digest %s has another one", digest)
	}
	return name, nil
}

func (a *archive) reader(p part) io.Reader { return io.NewSectionReader(a.to, p.at, p.size) }

// decode decodes a JSON file.
func (a *archive) decode(name string, v any) error {
	text, err := a.text(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("decode %s of the archive: %w", name, err)
	}
	return nil
}

// text returns the content of a small file.
func (a *archive) text(name string) ([]byte, error) {
	p, has := a.parts[name]
	if !has {
		return nil, fmt.Errorf("the archive has no file %.300q", name)
	}
	if p.size > maxText {
		return nil, fmt.Errorf("%s of the archive has %d bytes: at most %d are allowed", name, p.size, maxText)
	}
	return io.ReadAll(a.reader(p))
}

// verify checks that the archive contains the layers of its image. A daemon does not read a layer that it has.
func (a *archive) verify(ctx context.Context, m *manifest) (*Image, error) {
	text, err := a.text(m.Config)
	if err != nil {
		return nil, err
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("decode the configuration of the image: %w", err)
	}
	ids := config.RootFS.DiffIDs
	if len(ids) != len(m.Layers) {
		return nil, fmt.Errorf("the image has %d layers, but the archive has %d for it", len(ids), len(m.Layers))
	}
	if len(ids) > maxLayers {
		return nil, fmt.Errorf("the image has %d layers: at most %d are allowed", len(ids), maxLayers)
	}
	for i, name := range m.Layers {
		if target := a.links[name]; target != "" {
			name, m.Layers[i] = target, target
		}
		got, err := a.layer(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i+1, err)
		}
		if got != ids[i] {
			return nil, fmt.Errorf("layer %d of the archive is not that of the image: its digest is %s, not %.100q", i+1, got, ids[i])
		}
	}
	sum := sha256.Sum256(text)
	return &Image{ID: "sha256:" + hex.EncodeToString(sum[:]), Layers: ids}, nil
}

// layer returns the digest of an uncompressed layer.
func (a *archive) layer(ctx context.Context, name string) (string, error) {
	p, has := a.parts[name]
	if !has {
		return "", fmt.Errorf("the archive has no file %.300q", name)
	}
	content, err := decompress(ctx, ctxreader.New(ctx, a.reader(p)))
	if err != nil {
		return "", err
	}
	defer content.Close() //nolint:errcheck // it was read
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(content, maxUnpacked-a.unpacked+1))
	if err != nil {
		return "", fmt.Errorf("read the layer: %w", err)
	}
	if a.unpacked += n; a.unpacked > maxUnpacked {
		return "", fmt.Errorf("the layers have more than %d bytes", int64(maxUnpacked))
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// finish writes the manifest.json of the copy, and its end.
func (a *archive) finish(m *manifest) error {
	text, err := json.Marshal([]*manifest{m})
	if err != nil {
		return err
	}
	if err := a.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Size: int64(len(text)), Mode: 0o644}); err != nil {
		return err
	}
	if _, err := io.Copy(a.out, bytes.NewReader(text)); err != nil {
		return err
	}
	return a.out.Close()
}
