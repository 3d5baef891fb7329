package testdocker

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/moby/moby/client"
)

// The images of a daemon. Pause is for the networks of groups.
const (
	Image = "open-nomad/busybox:1"
	Pause = "open-nomad/pause:1"
)

// build imports the images.
func (d *Daemon) build(t testing.TB, busybox string) {
	t.Helper()
	root := Root(t, busybox)
	d.Import(t, Image, root, "ENV PATH=/bin", "CMD [\"/bin/sh\"]")
	d.Import(t, Pause, root, "ENTRYPOINT [\"/bin/busybox\", \"sleep\", \"1000000\"]")
}

// Import makes an image of the archive of a root file system.
func (d *Daemon) Import(t testing.TB, ref string, root []byte, changes ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	got, err := d.API.ImageImport(ctx, client.ImageImportSource{Source: bytes.NewReader(root), SourceName: "-"}, ref,
		client.ImageImportOptions{Changes: changes})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if text, err := io.ReadAll(got); err != nil || bytes.Contains(text, []byte("error")) {
		t.Fatalf("import %s: %s, %v", ref, text, err)
	}
}

// Root returns the archive of a root file system: a static busybox with its applets, the users root and
// app (1000), and the directories that programs expect.
func Root(t testing.TB, busybox string) []byte {
	t.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	applets, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(h *tar.Header, data []byte) {
		h.Size = int64(len(data))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin/", "etc/", "tmp/", "proc/", "sys/", "dev/"} {
		add(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	add(&tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, program)
	for _, name := range strings.Fields(string(applets)) {
		if name != "busybox" && !strings.Contains(name, "/") {
			add(&tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	add(&tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644},
		[]byte("root:x:0:0:root:/:/bin/sh\napp:x:1000:1000:app:/:/bin/sh\n"))
	add(&tar.Header{Name: "etc/group", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("root:x:0:\napp:x:1000:\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
