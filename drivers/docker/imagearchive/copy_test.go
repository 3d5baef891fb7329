package imagearchive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/open-nomad/open-nomad/drivers/docker/imagearchive"
)

const ref = "docker.io/library/web:1"

func digest(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }

// entry is an entry of an archive.
type entry struct {
	name, text, link string
	kind             byte
}

func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Linkname: e.link, Size: int64(len(e.text)), Mode: 0o644}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := errors.Join(w.WriteHeader(h), func() error { _, err := io.WriteString(w, e.text); return err }()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func encode(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

type object = map[string]any

// layer and config are those of an image with one layer.
var (
	layer  = "the layer"
	config = encode(object{"rootfs": object{"type": "layers", "diff_ids": []string{"sha256:" + digest([]byte(layer))}}})
	dir    = digest([]byte("legacy"))
)

// manifestOf returns a manifest.json of images with names.
func manifestOf(names ...string) entry {
	return entry{name: "manifest.json",
		text: encode([]object{{"Config": "config.json", "RepoTags": names, "Layers": []string{dir + "/layer.tar"}}})}
}

// saved returns the entries of an archive of Docker, with others in addition.
func saved(more ...entry) []entry {
	return append([]entry{{name: dir + "/", kind: tar.TypeDir}, {name: dir + "/layer.tar", text: layer}, {name: "config.json", text: config}},
		more...)
}

// configOf returns the configuration of an image that has a layer n times.
func configOf(n int) entry {
	ids := slices.Repeat([]string{"sha256:" + digest([]byte(layer))}, n)
	return entry{name: "config.json", text: encode(object{"rootfs": object{"type": "layers", "diff_ids": ids}})}
}

// manifestWith returns the manifest.json of that image.
func manifestWith(n int) entry {
	layers := slices.Repeat([]string{dir + "/layer.tar"}, n)
	return entry{name: "manifest.json", text: encode([]object{{"Config": "config.json", "RepoTags": []string{"web:1"}, "Layers": layers}})}
}

// layout returns the entries of an image layout of OCI.
func layout(annotations object, layerText string) []entry {
	blob := func(text string) entry { return entry{name: "blobs/sha256/" + digest([]byte(text)), text: text} }
	named := func(text string) object {
		return object{"digest": "sha256:" + digest([]byte(text)), "size": len(text)}
	}
	manifest := encode(object{"config": named(config), "layers": []object{named(layerText)}})
	first := named(manifest)
	first["annotations"] = annotations
	return []entry{blob(layerText), blob(config), blob(manifest), {name: "oci-layout", text: `{"imageLayoutVersion":"1.0.0"}`},
		{name: "index.json", text: encode(object{"manifests": []object{first}})}}
}

// copyOf copies an archive.
func copyOf(t testing.TB, archive []byte) (*imagearchive.Image, []byte, error) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "copy")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	image, err := imagearchive.Copy(t.Context(), bytes.NewReader(archive), f, ref)
	text, rerr := os.ReadFile(f.Name())
	if rerr != nil {
		t.Fatal(rerr)
	}
	return image, text, err
}

func gz(t testing.TB, text string) string {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := io.WriteString(z, text); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return out.String()
}

// filter runs a program of compression.
func filter(t testing.TB, name string, in []byte) []byte {
	t.Helper()
	cmd := exec.Command(name, "-c")
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("needs the program %s: %v", name, err)
	}
	return out
}

// TestCopy checks that every format gives one archive with one image and one name.
func TestCopy(t *testing.T) {
	plain := pack(t, saved(manifestOf("web:1", "docker.io/library/web:1"))...)
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	link := digest([]byte("other"))
	for name, archive := range map[string]func(t *testing.T) []byte{
		"docker": func(*testing.T) []byte { return plain },
		"gzip":   func(t *testing.T) []byte { return []byte(gz(t, string(plain))) },
		"zstd":   func(*testing.T) []byte { return z.EncodeAll(plain, nil) },
		"xz":     func(t *testing.T) []byte { return filter(t, "xz", plain) },
		"bzip2":  func(t *testing.T) []byte { return filter(t, "bzip2", plain) },
		"with repositories": func(t *testing.T) []byte {
			return pack(t, saved(manifestOf("web:1"), entry{name: "repositories", text: `{"victim":{"1":"x"}}`})...)
		},
		"with an index": func(t *testing.T) []byte {
			return pack(t, saved(manifestOf("web:1"),
				entry{name: "index.json", text: encode(object{"manifests": []object{{"annotations": object{"io.containerd.image.name": "docker.io/library/victim:1"}}}})})...)
		},
		"a dot in the names": func(t *testing.T) []byte {
			return pack(t, entry{name: "./", kind: tar.TypeDir}, entry{name: "./" + dir + "/layer.tar", text: layer},
				entry{name: "/config.json", text: config}, manifestOf("web:1"))
		},
		"a link to a layer": func(t *testing.T) []byte {
			m := entry{name: "manifest.json",
				text: encode([]object{{"Config": "config.json", "RepoTags": []string{"web:1"}, "Layers": []string{link + "/layer.tar"}}})}
			return pack(t, saved(m, entry{name: link + "/layer.tar", kind: tar.TypeSymlink, link: "../" + dir + "/layer.tar"})...)
		},
		"layout": func(t *testing.T) []byte { return pack(t, layout(object{"io.containerd.image.name": ref}, layer)...) },
		"layout with ref": func(t *testing.T) []byte {
			return pack(t, layout(object{"org.opencontainers.image.ref.name": "web:1"}, layer)...)
		},
		"layout, gzip layers": func(t *testing.T) []byte {
			return pack(t, layout(object{"io.containerd.image.name": ref}, gz(t, layer))...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			image, text, err := copyOf(t, archive(t))
			if err != nil {
				t.Fatal(err)
			}
			if image.ID != "sha256:"+digest([]byte(config)) || !slices.Equal(image.Layers, []string{"sha256:" + digest([]byte(layer))}) {
				t.Errorf("image = %+v", image)
			}
			checkCopy(t, text)
		})
	}
}

// checkCopy checks that a copy has one manifest.json, the last of its files, with one image, and nothing else that names one.
func checkCopy(t *testing.T, text []byte) {
	t.Helper()
	files := map[string][]byte{}
	in := tar.NewReader(bytes.NewReader(text))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := files[h.Name]; twice || h.Typeflag != tar.TypeReg {
			t.Errorf("entry %s of type %q, twice: %v", h.Name, h.Typeflag, twice)
		}
		if files[h.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"index.json", "repositories", "oci-layout"} {
		if _, has := files[name]; has {
			t.Errorf("the copy has %s", name)
		}
	}
	var list []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(files["manifest.json"], &list); err != nil || len(list) != 1 || !slices.Equal(list[0].RepoTags, []string{ref}) ||
		len(list[0].Layers) != 1 {
		t.Fatalf("manifest.json = %s, %v", files["manifest.json"], err)
	}
	if string(files[list[0].Config]) != config || len(files[list[0].Layers[0]]) == 0 {
		t.Errorf("the manifest names %q and %q, which the copy does not have", list[0].Config, list[0].Layers)
	}
}

// TestCopy_Refused checks that an archive is refused that names, moves or takes another image, or that two readers could
// read differently.
func TestCopy_Refused(t *testing.T) {
	two := entry{name: "manifest.json", text: encode([]object{
		{"Config": "config.json", "RepoTags": []string{"web:1"}, "Layers": []string{dir + "/layer.tar"}},
		{"Config": "config.json", "RepoTags": []string{"victim:1"}, "Layers": []string{dir + "/layer.tar"}}})}
	good := manifestOf("web:1")
	for name, c := range map[string]struct {
		entries []entry
		want    string
	}{
		"another name":            {saved(manifestOf("victim.example/web:1.2")), "no other name"},
		"two names":               {saved(manifestOf("web:1", "victim.example/web:1.2")), "no other name"},
		"another tag":             {saved(manifestOf("web:2")), "no other name"},
		"no name":                 {saved(manifestOf()), "does not name its image"},
		"not a name":              {saved(manifestOf("web:1\n")), "no other name"},
		"two images":              {saved(two), "2 images"},
		"no images":               {saved(entry{name: "manifest.json", text: "[]"}), "0 images"},
		"two manifests":           {saved(good, manifestOf("victim:1")), "twice"},
		"two names of a manifest": {saved(good, entry{name: "./manifest.json", text: manifestOf("victim:1").text}), "twice"},
		"another path":            {saved(good, entry{name: "x/../manifest.json", text: manifestOf("victim:1").text}), "twice"},
		"a linked manifest":       {saved(entry{name: "manifest.json", kind: tar.TypeSymlink, link: "config.json"}), "is a link"},
		"a hard link":             {saved(good, entry{name: "x", kind: tar.TypeLink, link: "manifest.json"}), "is not a regular file"},
		"a device":                {saved(good, entry{name: "x", kind: tar.TypeChar}), "is not a regular file"},
		"below a file":            {saved(good, entry{name: "config.json/x", text: "x"}), "is not a directory"},
		"below a link": {saved(good, entry{name: digest(nil) + "/layer.tar", kind: tar.TypeSymlink, link: "../" + dir + "/layer.tar"},
			entry{name: digest(nil) + "/layer.tar/x", text: "x"}), "is not a directory"},
		"a file over a directory": {saved(good, entry{name: dir, text: "x"}), "twice"},
		"outside":                 {saved(good, entry{name: "../x", text: "x"}), "not that of a file of an image"},
		"strange name":            {saved(good, entry{name: "\x1f\x8b\x08", text: "x"}), "not that of a file of an image"},
		"the place of originals":  {saved(good, entry{name: "original/manifest.json", text: "[]"}), "not that of a file of an image"},
		"only repositories":       {saved(entry{name: "repositories", text: `{"victim":{"1":"x"}}`}), "no manifest.json"},
		"no layer":                {[]entry{{name: "config.json", text: config}, good}, "has no file"},
		"another layer": {[]entry{{name: dir + "/layer.tar", text: "another"}, {name: "config.json", text: config}, good},
			"is not that of the image"},
		"no configuration": {[]entry{{name: dir + "/layer.tar", text: layer}, good}, "has no file"},
		"fewer layers": {append(saved(), entry{name: "manifest.json",
			text: encode([]object{{"Config": "config.json", "RepoTags": []string{"web:1"}, "Layers": []string{}}})}), "has 1 layers, but"},
		"one file as many layers": {[]entry{{name: dir + "/layer.tar", text: layer}, configOf(513), manifestWith(513)}, "at most 512"},
		"layout of another":       {layout(object{"io.containerd.image.name": "docker.io/library/victim:1"}, layer), "no other name"},
		"layout without a name":   {layout(nil, layer), "no other name"},
		"layout, full name first": {layout(object{"io.containerd.image.name": "victim:1", "org.opencontainers.image.ref.name": "web:1"}, layer),
			"no other name"},
		"layout without blobs": {layout(object{"io.containerd.image.name": ref}, layer)[1:], "has no file for the digest"},
		"a forged blob": {append([]entry{{name: "blobs/sha256/" + digest([]byte(layer)), text: "forged"}},
			layout(object{"io.containerd.image.name": ref}, layer)[1:]...), "has another one"},
		"manifest.json is text": {saved(entry{name: "manifest.json", text: "text"}), "decode manifest.json"},
	} {
		t.Run(name, func(t *testing.T) {
			if image, _, err := copyOf(t, pack(t, c.entries...)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Copy() = %+v, %v, want %q", image, err, c.want)
			}
		})
	}
	whole := pack(t, saved(good)...)
	for name, text := range map[string][]byte{"text": []byte("text"), "empty": nil, "cut": whole[:len(whole)/3],
		"cut gzip":   []byte(gz(t, string(whole)))[:100],
		"false gzip": []byte("\x1f\x8b\x08text"), "false zstd": []byte("\x28\xb5\x2f\xfdtext"), "false bzip2": []byte("BZhtext"),
		"false xz":     []byte("\xfd7zXZ\x00text"),
		"gzip in gzip": []byte(gz(t, gz(t, string(whole))))} {
		if image, _, err := copyOf(t, text); err == nil {
			t.Errorf("%s: Copy() = %+v, want an error", name, image)
		}
	}
}

// TestCopy_Digests checks that a name with a digest cannot be loaded: the content of an archive does not have it.
func TestCopy_Digests(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "copy")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name := "docker.io/library/web@sha256:" + digest(nil)
	if _, err := imagearchive.Copy(t.Context(), bytes.NewReader(pack(t, saved(manifestOf("web:1"))...)), f, name); err == nil {
		t.Error("Copy() for a digest = nil")
	}
}

// FuzzCopy checks that what is accepted has one image with the name.
func FuzzCopy(f *testing.F) {
	f.Add(pack(f, saved(manifestOf("web:1"))...))
	f.Add(pack(f, layout(object{"io.containerd.image.name": ref}, layer)...))
	f.Fuzz(func(t *testing.T, archive []byte) {
		_, text, err := copyOf(t, archive)
		if err == nil && !bytes.Contains(text, []byte(`"RepoTags":["`+ref+`"]`)) {
			t.Error("the copy does not have the name")
		}
	})
}
