package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/docker/imagearchive"
	"github.com/open-nomad/open-nomad/internal/testdisk"
)

// A small archive that unpacks to many bytes does not fill the disk of the agent.
func TestLoad_FullDisk(t *testing.T) {
	t.Parallel()
	const disk, unpacked = 40 << 20, 48 << 20
	at := testdisk.New(t, "40m", false)
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: "layer.tar", Typeflag: tar.TypeReg, Mode: 0o644, Size: unpacked}); err != nil {
		t.Fatal(err)
	}
	_, err := w.Write(make([]byte, unpacked))
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	if archive.Len() > 1<<20 {
		t.Fatalf("the archive has %d bytes", archive.Len())
	}
	f, err := os.Create(filepath.Join(at.Dir, "copy"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := imagearchive.Copy(t.Context(), io.Reader(&archive), &reserving{File: f}, "docker.io/library/web:1"); !errors.Is(err,
		unix.ENOSPC) {
		t.Errorf("Copy() = %v, want ENOSPC", err)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(at.Dir, &st); err != nil {
		t.Fatal(err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < disk/20 || free > disk/10 {
		t.Errorf("%d bytes of the disk are free, want 5 %% of %d", free, disk)
	}
}
