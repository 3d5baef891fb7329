package artifact_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/nomad"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestFile(t *testing.T) {
	h := newHarness(t, config())
	url := serve(t, map[string]http.HandlerFunc{"/dir/app": content("text"), "/q": func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL.RawQuery, " ", r.Header.Get("X-Token"), " ", r.Method)
	}})
	for _, c := range []struct {
		a          nomad.TaskArtifact
		file, want string
	}{
		{nomad.TaskArtifact{GetterSource: url + "/dir/app"}, "local/app", "text"},
		{nomad.TaskArtifact{GetterSource: url + "/dir/app", RelativeDest: "local/a/b/"}, "local/a/b/app", "text"},
		{nomad.TaskArtifact{GetterSource: url + "/dir/app", RelativeDest: "local/c/name", GetterMode: "file"}, "local/c/name", "text"},
		{nomad.TaskArtifact{GetterSource: url + "/dir/app", RelativeDest: "../alloc/data"}, "../alloc/data/app", "text"},
		{nomad.TaskArtifact{GetterSource: url + "/dir/app?filename=other"}, "local/other", "text"},
		{nomad.TaskArtifact{GetterSource: url + "/dir/app", RelativeDest: "secrets",
			GetterOptions: map[string]string{"checksum": digest("text")}}, "secrets/app", "text"},
		{nomad.TaskArtifact{GetterSource: url + "/q?a=1", GetterOptions: map[string]string{"b": "2 3"},
			GetterHeaders: map[string]string{"x-token": "t"}}, "local/q", "a=1&b=2+3 t GET"},
	} {
		r := h.gets(&c.a)
		h.has(c.file, c.want)
		if r.Digest != digest(c.want) || r.Name != c.file {
			t.Errorf("%s: result %+v, want name %s and digest %s", c.a.GetterSource, r, c.file, digest(c.want))
		}
	}
	info, err := os.Stat(filepath.Join(h.local, "a/b/app"))
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); info.Mode() != 0o644 || os.Geteuid() == 0 && st.Uid != taskUID {
		t.Errorf("the file has mode %v and owner %d", info.Mode(), st.Uid)
	}
}

func TestArchives(t *testing.T) {
	h := newHarness(t, config())
	files := []entry{{name: "bin/", mode: 0o755}, {name: "bin/run", text: "run", mode: 0o4755}, {name: "conf/deep/a.txt", text: "a"}}
	routes := map[string]http.HandlerFunc{}
	for kind, data := range archives(t, files) {
		routes["/a."+kind] = content(data)
	}
	routes["/plain"] = content(archives(t, files)["tar.gz"])
	url := serve(t, routes)
	for kind, data := range archives(t, files) {
		t.Run(kind, func(t *testing.T) {
			h := newHarness(t, config())
			r := h.gets(&nomad.TaskArtifact{GetterSource: url + "/a." + kind, RelativeDest: "local/app"})
			h.has("local/app/bin/run", "run")
			h.has("local/app/conf/deep/a.txt", "a")
			info, err := os.Stat(filepath.Join(h.local, "app/bin/run"))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != 0o755 {
				t.Errorf("bin/run has mode %v, want 0755 without setuid", info.Mode())
			}
			if r.Digest != digest(string(data)) || r.Name != "local/app" {
				t.Errorf("result %+v", r)
			}
			if len(h.runs) != 2 || h.runs[0].NoTCP || !h.runs[1].NoTCP {
				t.Errorf("%d programs, the first one without TCP: %v, the second one: %v", len(h.runs), h.runs[0].NoTCP, h.runs[len(h.runs)-1].NoTCP)
			}
		})
	}
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/plain?archive=tar.gz", RelativeDest: "local/opt"})
	h.has("local/opt/bin/run", "run")
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/a.tgz?archive=false", RelativeDest: "local/raw"})
	h.has("local/raw/a.tgz", string(archives(t, files)["tgz"]))
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/a.zip//conf/deep", RelativeDest: "local/sub"})
	h.has("local/sub/a.txt", "a")
	if names, _ := filepath.Glob(filepath.Join(h.local, "sub/*")); len(names) != 1 {
		t.Errorf("the subdirectory gives %v", names)
	}
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/a.zip//none"}, "not found")
}

// A second artifact keeps what it does not replace, and follows no link of the destination.
func TestMerge(t *testing.T) {
	h := newHarness(t, config())
	canary := filepath.Join(t.TempDir(), "canary")
	if err := os.WriteFile(canary, []byte("host"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := serve(t, map[string]http.HandlerFunc{
		"/a.tar": content(tarOf(t, []entry{{name: "d/one", text: "1"}, {name: "d/link", text: "file"}, {name: "top", text: "new"}})),
		"/b.tar": content(tarOf(t, []entry{{name: "d", text: "a file now"}})),
		"/c.tar": content(tarOf(t, []entry{{name: "top/x", text: "x"}})),
	})
	if err := os.MkdirAll(filepath.Join(h.local, "d"), 0o777); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"d/old": "old", "top": "old"} {
		if err := os.WriteFile(filepath.Join(h.local, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(canary, filepath.Join(h.local, "d/link")); err != nil {
		t.Fatal(err)
	}
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/a.tar"})
	for name, want := range map[string]string{"local/d/old": "old", "local/d/one": "1", "local/d/link": "file", "local/top": "new"} {
		h.has(name, want)
	}
	if b, err := os.ReadFile(canary); string(b) != "host" {
		t.Errorf("the target of the link has %q, %v", b, err)
	}
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/b.tar"}, `"web/local/d" of the destination is a directory`)
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/c.tar"}, `"web/local/top" of the destination is a file`)
	for _, name := range []string{"out", "in/out"} {
		if err := os.MkdirAll(filepath.Join(h.local, "in"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Dir(canary), filepath.Join(h.local, name)); err != nil {
			t.Fatal(err)
		}
		h.refused(&nomad.TaskArtifact{GetterSource: url + "/a.tar", RelativeDest: "local/" + name}, "not a directory")
		h.refused(&nomad.TaskArtifact{GetterSource: url + "/a.tar", RelativeDest: "local/" + name + "/sub"}, "not a directory")
	}
}

func TestDestination(t *testing.T) {
	h := newHarness(t, config())
	url := serve(t, map[string]http.HandlerFunc{
		"/a": content("x"), "/private.tar": content(tarOf(t, []entry{{name: "private/x", text: "x"}})),
		"/logs.tar": content(tarOf(t, []entry{{name: "logs/x", text: "x"}})),
	})
	for dest, want := range map[string]string{
		"../..": "outside the task's directory", "/etc": "outside the task's directory", "../other/local": "outside the task's directory",
		"..":                    "outside the task's directory",
		"../../../../../../etc": "outside the task's directory", "local/../../../x": "outside the task's directory",
		"private": "directory of the agent", "private/x": "directory of the agent",
		"../alloc/logs": "directory of the agent", "../alloc/logs/a": "directory of the agent", "local/${nope}": "not defined",
		"local/\n": "control character", ".nomad-artifact-x": "directory of a download",
	} {
		h.refused(&nomad.TaskArtifact{GetterSource: url + "/a", RelativeDest: dest}, want)
	}
	for dest, want := range map[string]string{"local/": "is a directory, but mode is file", ".": "is a directory, but mode is file",
		"private/x": "directory of the agent", "../alloc/logs": "directory of the agent"} {
		h.refused(&nomad.TaskArtifact{GetterSource: url + "/a", RelativeDest: dest, GetterMode: "file"}, want)
	}
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/private.tar", RelativeDest: "."}, "directory of the agent")
	h.refused(&nomad.TaskArtifact{GetterSource: url + "/logs.tar", RelativeDest: "../alloc"}, "directory of the agent")
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/a", RelativeDest: "."})
	h.has("a", "x")
}

// Several artifacts are independent of each other.
func TestSeveral(t *testing.T) {
	h := newHarness(t, config())
	routes := map[string]http.HandlerFunc{}
	var list []*nomad.TaskArtifact
	for i := range 10 {
		routes[fmt.Sprintf("/%d", i)] = content(strings.Repeat(fmt.Sprint(i), 100_000))
	}
	delete(routes, "/7")
	url := serve(t, routes)
	for i := range 10 {
		list = append(list, &nomad.TaskArtifact{GetterSource: fmt.Sprintf("%s/%d", url, i), RelativeDest: "local/"})
	}
	for i, r := range h.Fetch(t.Context(), h.task, list) {
		if (r.Err != nil) != (i == 7) {
			t.Errorf("artifact %d: %v", i, r.Err)
		}
		if i != 7 {
			h.has(fmt.Sprintf("local/%d", i), strings.Repeat(fmt.Sprint(i), 100_000))
		}
	}
	h.clean()
}
