package migrate_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/client/migrate"
)

// entry is one entry of a hostile tar.
type entry struct {
	name, link, text string
	kind             byte // 0 for a regular file
	mode             int64
	size             int64 // 0 for the length of the text
	uid              int
}

// tarOf writes a tar. It need not be complete.
func tarOf(t *testing.T, entries []entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: 0o644 | e.mode, Size: int64(len(e.text)), Uid: e.uid}
		if e.size > 0 {
			h.Size = e.size
		}
		if e.kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err == nil {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// Nothing of a refused stream remains, and nothing outside the allocation is touched.
func TestHostileStream(t *testing.T) {
	outside := t.TempDir()
	canary := filepath.Join(outside, "canary")
	if err := os.WriteFile(canary, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(name, target string) entry { return entry{name: name, link: target, kind: tar.TypeSymlink} }
	for name, c := range map[string]struct {
		entries []entry
		want    string
	}{
		"dots":                  {[]entry{{name: "../escaped", text: "x"}}, "must be a relative path"},
		"dots inside":           {[]entry{{name: "alloc/data/../../../escaped", text: "x"}}, "must be a relative path"},
		"dots to a sibling":     {[]entry{{name: "alloc/data/../logs/x", text: "x"}}, "must be a relative path"},
		"absolute":              {[]entry{{name: canary, text: "x"}}, "must be a relative path"},
		"empty part":            {[]entry{{name: "alloc//data/x", text: "x"}}, "must be a relative path"},
		"only a slash":          {[]entry{{name: "/", kind: tar.TypeDir}}, "must be a relative path"},
		"secrets":               {[]entry{{name: "t/secrets/key", text: "x"}}, "only alloc/data and the directory local"},
		"logs":                  {[]entry{{name: "alloc/logs/t.stdout.0", text: "x"}}, "only alloc/data"},
		"alloc/local":           {[]entry{{name: "alloc/local/x", text: "x"}}, "only alloc/data"},
		"top":                   {[]entry{{name: "file", text: "x"}}, "only alloc/data"},
		"data is a link":        {[]entry{link("alloc/data", "../../.."), {name: "alloc/data/x", text: "x"}}, "it must be a directory"},
		"data is a file":        {[]entry{{name: "alloc/data", text: "x"}}, "it must be a directory"},
		"link out":              {[]entry{link("alloc/data/l", "../../../x"), {name: "alloc/data/l/y", text: "x"}}, "leads out of"},
		"absolute link":         {[]entry{link("alloc/data/l", canary), {name: "alloc/data/l", text: "x"}}, "leads out of"},
		"empty link":            {[]entry{link("alloc/data/l", "")}, "leads out of"},
		"file through a link":   {[]entry{link("alloc/data/l", "d"), {name: "alloc/data/l/y", text: "x"}}, "not a directory"},
		"file over a link":      {[]entry{link("alloc/data/l", "../logs"), {name: "alloc/data/l", text: "x"}}, "the name occurs twice"},
		"link over a file":      {[]entry{{name: "alloc/data/l", text: "x"}, link("alloc/data/l", "x")}, "the name occurs twice"},
		"link over a directory": {[]entry{{name: "alloc/data/l", kind: tar.TypeDir}, link("alloc/data/l", "x")}, "the name occurs twice"},
		"directory over a link": {[]entry{link("alloc/data/l", "x"), {name: "alloc/data/l", kind: tar.TypeDir}}, ""},
		"links through each other": {[]entry{link("alloc/data/a", "b/.."), link("alloc/data/b", "../.."), link("alloc/data/a/c", "x")},
			"not a directory"},
		"file twice":   {[]entry{{name: "alloc/data/x", text: "x"}, {name: "alloc/data/x", text: "y"}}, "the name occurs twice"},
		"below a file": {[]entry{{name: "alloc/data/x", text: "x"}, {name: "alloc/data/x/y", text: "y"}}, "not a directory"},
		"hard link": {[]entry{{name: "alloc/data/x", link: "alloc/data/y", kind: tar.TypeLink}},
			"only directories, files and symbolic links"},
		"hard link out": {[]entry{{name: "alloc/data/x", link: canary, kind: tar.TypeLink}},
			"only directories, files and symbolic links"},
		"device":                    {[]entry{{name: "alloc/data/x", kind: tar.TypeChar}}, "only directories, files"},
		"block device":              {[]entry{{name: "alloc/data/x", kind: tar.TypeBlock}}, "only directories, files"},
		"FIFO":                      {[]entry{{name: "alloc/data/x", kind: tar.TypeFifo}}, "only directories, files"},
		"long name":                 {[]entry{{name: "alloc/data/" + strings.Repeat("x", 300), text: "x"}}, "too long"},
		"deep":                      {[]entry{{name: "alloc/data/" + strings.Repeat("d/", 300) + "x", text: "x"}}, "levels of directories"},
		"control file of the agent": {[]entry{{name: ".migrate/x", text: "x"}}, "only alloc/data"},
		"bytes":                     {[]entry{{name: "alloc/data/x", text: strings.Repeat("x", 9<<20)}}, "larger than the disk of the group"},
		"many entries":              {many(3000), "larger than the disk of the group"},
		"large header":              {[]entry{{name: "alloc/data/x", text: "x"}, {name: "other/local/x", kind: tar.TypeDir}}, ""},
		"error of the sender": {[]entry{{name: "alloc/data/x", text: "x"},
			{name: "NOMAD-old-ERROR.log", text: "Error snapshotting: disk broke"}}, "disk broke"},
	} {
		t.Run(name, func(t *testing.T) {
			to := newDisk(t)
			err := to.target().Receive(bytes.NewReader(tarOf(t, c.entries)), limits())
			if c.want == "" {
				if err != nil && !errors.Is(err, migrate.ErrRefused) && !strings.Contains(err.Error(), "exists") &&
					!strings.Contains(err.Error(), "directory") {
					t.Errorf("Receive() = %v", err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Receive() = %v, want %q", err, c.want)
			}
			if err != nil {
				to.empty()
			}
			if above, err := os.ReadDir(filepath.Dir(to.path)); err != nil || len(above) != 1 {
				t.Errorf("beside the allocation: %v, %v", above, err)
			}
		})
	}
	if got, err := os.ReadFile(canary); string(got) != "untouched" {
		t.Errorf("the canary is %q, %v", got, err)
	}
}

func many(n int) (all []entry) {
	for i := range n {
		all = append(all, entry{name: fmt.Sprintf("alloc/data/%d", i)})
	}
	return all
}

// Sizes that a header claims are refused before anything is read. Bits that raise privileges are
// dropped.
func TestClaims(t *testing.T) {
	to := newDisk(t)
	head := tarHead(t, &tar.Header{Name: "alloc/data/huge", Typeflag: tar.TypeReg, Size: 1 << 50, Mode: 0o644})
	err := to.target().Receive(io.MultiReader(bytes.NewReader(head), zeros{}), limits())
	if err == nil || !strings.Contains(err.Error(), "16 times the disk") {
		t.Errorf("claimed size: %v", err)
	}
	to.empty()
	// Endless padding after the end.
	err = to.target().Receive(zeros{}, limits())
	if err == nil || !strings.Contains(err.Error(), "after the end of the tar") {
		t.Errorf("endless padding: %v", err)
	}
	// Endless entries that are left out count as well.
	r, w := io.Pipe()
	go func() {
		out := tar.NewWriter(w)
		for {
			if out.WriteHeader(&tar.Header{Name: "other/local/d", Typeflag: tar.TypeDir}) != nil {
				return
			}
		}
	}()
	err = to.target().Receive(r, limits())
	r.Close()
	if !errors.Is(err, migrate.ErrRefused) {
		t.Errorf("endless entries: %v", err)
	}
	to.empty()
	data := tarOf(t, []entry{{name: "alloc/data/su", text: "x", mode: 0o7755}, {name: "alloc/data/d", kind: tar.TypeDir, mode: 0o7777}})
	if err := to.target().Receive(bytes.NewReader(data), limits()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"su": 0o755 | os.ModeSticky, "d": os.ModeDir | os.ModeSticky | 0o777} {
		if info, err := os.Lstat(filepath.Join(to.path, "alloc/data", name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	if os.Geteuid() == 0 {
		err := to.target().Receive(bytes.NewReader(tarOf(t, []entry{{name: "alloc/data/x", text: "x", uid: 1<<32 - 1}})), limits())
		if err == nil || !strings.Contains(err.Error(), "not a valid owner") {
			t.Errorf("uid -1: %v", err)
		}
	}
}

// tarHead returns a header without content.
func tarHead(t *testing.T, h *tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := tar.NewWriter(&out).WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
