package artifact_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

// hostile are entries that make an archive refused as a whole, with a part of the error. A good entry comes first.
var hostile = []struct {
	name    string
	entries []entry
	want    string
	noZip   bool // ZIP has no such entry
}{
	{"slip by ..", []entry{{name: "../../escaped", text: "x"}}, `contains ".."`, false},
	{"slip inside", []entry{{name: "a/../../escaped", text: "x"}}, `contains ".."`, false},
	{"slip by backslash", []entry{{name: `..\escaped`, text: "x"}}, "contains a backslash", false},
	{"absolute", []entry{{name: "/etc/escaped", text: "x"}}, "is absolute", false},
	{"link", []entry{{name: "link", kind: tar.TypeSymlink, link: "/etc/passwd"}}, `"link" is a symbolic link`, false},
	{"link inside", []entry{{name: "link", kind: tar.TypeSymlink, link: "good"}}, `"link" is a symbolic link`, false},
	{"link chain", []entry{{name: "a", kind: tar.TypeSymlink, link: "."}, {name: "a/b", kind: tar.TypeSymlink, link: ".."},
		{name: "a/b/escaped", text: "x"}}, `"a" is a symbolic link`, false},
	{"hard link", []entry{{name: "hard", kind: tar.TypeLink, link: "/etc/passwd"}}, `"hard" is a hard link`, true},
	{"device", []entry{{name: "dev", kind: tar.TypeChar}}, `"dev" is a device`, false},
	{"block device", []entry{{name: "dev", kind: tar.TypeBlock}}, `"dev" is a device`, true},
	{"FIFO", []entry{{name: "pipe", kind: tar.TypeFifo}}, `"pipe" is a FIFO`, false},
	{"contiguous file", []entry{{name: "cont", kind: tar.TypeCont}}, `"cont" is not a regular file`, true},
	{"unknown type", []entry{{name: "x", kind: 'Z'}}, `type 'Z'`, true},
	{"newline", []entry{{name: "a\nb", text: "x"}}, "contains a control character", false},
	{"escape sequence", []entry{{name: "a\x1b[2Jb", text: "x"}}, "contains a control character", false},
	{"same name", []entry{{name: "twice", text: "1"}, {name: "twice", text: "2"}}, `contains "twice" twice`, false},
	{"file and directory", []entry{{name: "x", text: "1"}, {name: "x/y", text: "2"}}, `contains "x" twice`, false},
	{"link of another case", []entry{{name: "Dir", kind: tar.TypeSymlink, link: ".."}, {name: "dir/escaped", text: "x"}},
		`"Dir" is a symbolic link`, false},
	{"deep", []entry{{name: strings.Repeat("d/", 101) + "x", text: "x"}}, "more than 100 elements", false},
	{"unreadable directory", []entry{{name: "closed/", mode: 0o200}}, "could not read it", true},
}

func TestHostileArchives(t *testing.T) {
	testpace.Slow(t, "starts a process for each of many archives")
	h := newHarness(t, config())
	routes := map[string]http.HandlerFunc{}
	for i, c := range hostile {
		entries := append([]entry{{name: "good", text: "good"}}, c.entries...)
		routes[fmt.Sprintf("/%d.tar.gz", i)] = content(gz(t, tarOf(t, entries)))
		if !c.noZip {
			routes[fmt.Sprintf("/%d.zip", i)] = content(zipOf(t, entries))
		}
	}
	url := serve(t, routes)
	for i, c := range hostile {
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			h.refused(&nomad.TaskArtifact{GetterSource: fmt.Sprintf("%s/%d.tar.gz", url, i)}, c.want)
			if !c.noZip && !testing.Short() {
				h.refused(&nomad.TaskArtifact{GetterSource: fmt.Sprintf("%s/%d.zip", url, i)}, c.want)
			}
		})
	}
	h.t = t
	if _, err := os.Stat("/etc/escaped"); err == nil {
		t.Error("a file was written to /etc")
	}
}

// Names that differ in case are different files, as in archives of the Linux kernel. In a destination that
// takes them for one, which a bind mount shows here, nothing is replaced.
func TestCase(t *testing.T) {
	entries := []entry{{name: "File", text: "1"}, {name: "fILE", text: "2"}, {name: "Dir/a", text: "3"}, {name: "dir/a", text: "4"},
		{name: "K", text: "5"}, {name: "\u212a", text: "6"}}
	url := serve(t, map[string]http.HandlerFunc{"/a.tar": content(tarOf(t, entries)), "/a.zip": content(zipOf(t, entries))})
	for _, kind := range []string{"tar", "zip"} {
		h := newHarness(t, config())
		for range 2 { // the second time, all of them exist
			h.gets(&nomad.TaskArtifact{GetterSource: url + "/a." + kind})
			for _, e := range entries {
				h.has("local/"+e.name, e.text)
			}
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a directory with two names")
	}
	h := newHarness(t, config())
	for _, name := range []string{"Dir", "dir"} {
		if err := os.Mkdir(filepath.Join(h.local, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(filepath.Join(h.local, "Dir"), filepath.Join(h.local, "dir"), "", unix.MS_BIND, ""); err != nil {
		t.Skipf("needs mounts: %v", err)
	}
	defer unix.Unmount(filepath.Join(h.local, "dir"), unix.MNT_DETACH) //nolint:errcheck // the test ends
	r := h.get(&nomad.TaskArtifact{GetterSource: url + "/a.tar"})
	if r.Err == nil || !strings.Contains(r.Err.Error(), "the same in the destination") {
		t.Errorf("Fetch() = %+v, want an error", r)
	}
}

// Sparse files in both formats: an entry of type S, and records of PAX.
func TestSparse(t *testing.T) {
	h := newHarness(t, config())
	old := tarOf(t, []entry{{name: "sparse", kind: tar.TypeReg, text: strings.Repeat("x", 512)}})
	old[156] = tar.TypeGNUSparse
	copy(old[257:], "ustar  \x00")                    // magic of GNU
	copy(old[386:], "00000000000\x0000000001000\x00") // one fragment
	copy(old[483:], "00010000000\x00")                // real size: 2 MiB
	copy(old[148:], fmt.Sprintf("%06o\x00 ", checksumOf(old[:512])))
	pax := paxSparse()
	url := serve(t, map[string]http.HandlerFunc{"/old.tar": content(old), "/pax.tar": content(pax)})
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/old.tar"}, `"sparse" is a sparse file`)
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/pax.tar"}, `"sparse" is a sparse file`)
}

// checksumOf returns the checksum of a header of tar.
func checksumOf(header []byte) (sum int) {
	for i, b := range header {
		if i >= 148 && i < 156 {
			b = ' '
		}
		sum += int(b)
	}
	return sum
}

// paxSparse returns an archive with a sparse file of version 0.1 of PAX, which Go does not write.
func paxSparse() []byte {
	record := func(key, value string) string {
		for n := len(key) + len(value) + 3; ; n++ {
			if line := fmt.Sprintf("%d %s=%s\n", n, key, value); len(line) == n {
				return line
			}
		}
	}
	records := record("GNU.sparse.major", "0") + record("GNU.sparse.minor", "1") + record("GNU.sparse.name", "sparse") +
		record("GNU.sparse.size", "2097152") + record("GNU.sparse.numblocks", "1") + record("GNU.sparse.map", "0,512")
	var out bytes.Buffer
	block := func(name string, kind byte, content string) {
		h := make([]byte, 512)
		copy(h, name)
		copy(h[100:], "0000644\x000000000\x000000000\x00")
		copy(h[124:], fmt.Sprintf("%011o\x00%011o\x00", len(content), 0))
		h[156] = kind
		copy(h[257:], "ustar\x0000")
		copy(h[148:], fmt.Sprintf("%06o\x00 ", checksumOf(h)))
		out.Write(h)
		out.WriteString(content)
		out.Write(make([]byte, (512-len(content)%512)%512))
	}
	block("PaxHeaders/sparse", tar.TypeXHeader, records)
	block("GNUSparseFile.0/sparse", tar.TypeReg, strings.Repeat("x", 512))
	out.Write(make([]byte, 1024))
	return out.Bytes()
}

// Special bits of modes disappear from files and directories.
func TestSpecialBits(t *testing.T) {
	h := newHarness(t, config())
	entries := []entry{{name: "dir/", mode: 0o7755}, {name: "dir/run", mode: 0o6755, text: "x"}}
	url := serve(t, map[string]http.HandlerFunc{"/a.tar": content(tarOf(t, entries)), "/a.zip": content(zipOf(t, entries))})
	for _, kind := range []string{"tar", "zip"} {
		h.gets(&nomad.TaskArtifact{GetterSource: url + "/a." + kind, RelativeDest: "local/" + kind})
		for name, want := range map[string]os.FileMode{"dir": os.ModeDir | 0o755, "dir/run": 0o755} {
			if info, err := os.Lstat(filepath.Join(h.local, kind, name)); err != nil || info.Mode() != want {
				t.Errorf("%s: %s has mode %v, %v, want %v", kind, name, info.Mode(), err, want)
			}
		}
	}
}

// Bombs by size and by count are refused, whatever their format. A single compressed file is not cut.
func TestBombs(t *testing.T) {
	cfg := config() // 16 MiB, 200 entries
	h := newHarness(t, cfg)
	zeros := string(make([]byte, 17<<20))
	var many, deep []entry
	for i := range 201 {
		many = append(many, entry{name: fmt.Sprint(i), text: "x"})
	}
	for i := range 30 {
		deep = append(deep, entry{name: fmt.Sprintf("%d/a/b/c/d/e/f", i), text: "x"})
	}
	big := []entry{{name: "zeros", text: zeros}}
	var parts []entry
	for i := range 18 {
		parts = append(parts, entry{name: fmt.Sprint(i), text: zeros[:1<<20]})
	}
	inner := gz(t, tarOf(t, big))
	nested := []entry{{name: "inner.tar.gz", text: string(inner)}}
	padded := append(tarOf(t, []entry{{name: "a", text: "x"}})[:1024], paxPadding(20<<20)...)
	single := []byte(zeros)
	routes := map[string]http.HandlerFunc{
		"/big.tar.gz": content(gz(t, tarOf(t, big))), "/big.zip": content(zipOf(t, big)), "/parts.tgz": content(gz(t, tarOf(t, parts))),
		"/parts.zip": content(zipOf(t, parts)),
		"/many.tar":  content(tarOf(t, many)), "/many.zip": content(zipOf(t, many)), "/deep.tar": content(tarOf(t, deep)),
		"/one.gz": content(gz(t, single)), "/one.zst": content(compress(t, single, zstdWriter)), "/exact.gz": content(gz(t, single[:16<<20])),
		"/nested.tar.gz": content(gz(t, tarOf(t, nested))), "/padded.tar.gz": content(gz(t, padded)),
	}
	url := serve(t, routes)
	for name, want := range map[string]string{
		"big.tar.gz": "its content is larger than the limit of 16777216 bytes", "big.zip": "its content is larger than the limit",
		"parts.tgz": "its content is larger than the limit",
		"parts.zip": "its content is larger than the limit", "many.tar": "more than 200 entries", "many.zip": "more than 200 entries",
		"deep.tar":      "more than 200 entries",
		"padded.tar.gz": "the uncompressed archive is larger than the limit",
	} {
		h.refused(&nomad.TaskArtifact{GetterSource: url + "/" + name}, want)
	}
	for _, name := range []string{"one.gz", "one.zst"} {
		h.refused(&nomad.TaskArtifact{GetterSource: url + "/" + name, GetterMode: "file", RelativeDest: "local/one"}, "larger than the limit")
	}
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/exact.gz", GetterMode: "file", RelativeDest: "local/exact"})
	h.has("local/exact", zeros[:16<<20])
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/nested.tar.gz", RelativeDest: "local/nested"})
	h.has("local/nested/inner.tar.gz", string(inner)) // an archive in an archive is a file
}

// paxPadding returns a global header of PAX records that fills n bytes.
func paxPadding(n int) []byte {
	var out bytes.Buffer
	for out.Len() < n {
		h := make([]byte, 512)
		content := strings.Repeat("30 comment=xxxxxxxxxxxxxxxxxx\n", 30_000)
		copy(h, "pax_global_header")
		copy(h[100:], "0000644\x000000000\x000000000\x00")
		copy(h[124:], fmt.Sprintf("%011o\x00%011o\x00", len(content), 0))
		h[156] = tar.TypeXGlobalHeader
		copy(h[257:], "ustar\x0000")
		copy(h[148:], fmt.Sprintf("%06o\x00 ", checksumOf(h)))
		out.Write(h)
		out.WriteString(content)
		out.Write(make([]byte, (512-len(content)%512)%512))
	}
	return out.Bytes()
}

// Damaged archives are errors, and nothing of them arrives.
func TestDamagedArchives(t *testing.T) {
	h := newHarness(t, config())
	whole := gz(t, tarOf(t, []entry{{name: "a", text: strings.Repeat("text", 10_000)}, {name: "b", text: "x"}}))
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	zipped := zipOf(t, []entry{{name: "a", text: strings.Repeat("text", 10_000)}})
	url := serve(t, map[string]http.HandlerFunc{
		"/short.tgz": content(whole[:len(whole)-20]), "/flipped.tgz": content(flipped), "/text.tgz": content("text"),
		"/empty.tar": content(tarOf(t, nil)),
		"/short.zip": content(zipped[:len(zipped)-10]), "/empty.zip": content(zipOf(t, nil)), "/none.tgz": content(""),
		"/tail.gz": content(whole[:8]),
	})
	for _, name := range []string{"short.tgz", "flipped.tgz", "text.tgz", "empty.tar", "short.zip", "empty.zip", "none.tgz"} {
		h.refused(&nomad.TaskArtifact{GetterSource: url + "/" + name}, "")
	}
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/tail.gz", GetterMode: "file", RelativeDest: "local/x"}, "")
}
