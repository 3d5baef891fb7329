package artifact_test

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

// hgRepo is a Mercurial repository.
type hgRepo struct {
	t   *testing.T
	dir string
}

func newHgRepo(t *testing.T) *hgRepo {
	t.Helper()
	testpace.Slow(t, "starts Mercurial many times")
	if _, err := exec.LookPath("hg"); err != nil {
		t.Skip("needs Mercurial: install the package mercurial, as .ci/run does")
	}
	r := &hgRepo{t, t.TempDir()}
	r.hg("init")
	return r
}

// command returns a command of hg in the repository, without configuration.
func (r *hgRepo) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(r.t.Context(), "hg", args...)
	cmd.Dir = r.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HGRCPATH=", "HGPLAIN=1", "HGUSER=test", "HOME=/nonexistent"}
	return cmd
}

func (r *hgRepo) hg(args ...string) string {
	r.t.Helper()
	out, err := r.command(args...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("hg %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit adds files and returns the ID of the revision.
func (r *hgRepo) commit(files map[string]string) string {
	r.t.Helper()
	for name, text := range files {
		at := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			r.t.Fatal(err)
		}
		var err error
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, at)
		} else {
			err = os.WriteFile(at, []byte(text), 0o644)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	r.hg("commit", "-A", "-m", "files")
	return r.hg("identify", "-i", "--debug")
}

// serve runs Mercurial's own server and returns the URL of the repository.
func (r *hgRepo) serve() string {
	r.t.Helper()
	cmd := r.command("serve", "--address", "127.0.0.1", "--port", "0", "--print-url")
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		r.t.Fatalf("hg serve: %v", err)
	}
	return strings.Replace(strings.TrimRight(strings.TrimSpace(line), "/"), "localhost", "127.0.0.1", 1)
}

// A repository arrives with its files at a revision, and a single file of it.
func TestHg(t *testing.T) {
	r := newHgRepo(t)
	first := r.commit(map[string]string{"a.txt": "first", "dir/b": "b"})
	r.commit(map[string]string{"a.txt": "second"})
	url := r.serve()
	h := newHarness(t, config())
	res := h.gets(&nomad.TaskArtifact{GetterSource: "hg::" + url, RelativeDest: "local/repo"})
	h.has("local/repo/a.txt", "second")
	h.has("local/repo/dir/b", "b")
	if res.Digest != "" {
		t.Errorf("a repository has the digest %s", res.Digest)
	}
	h.gets(&nomad.TaskArtifact{GetterSource: "hg::" + url + "?rev=" + first, RelativeDest: "local/old"})
	h.has("local/old/a.txt", "first")
	h.gets(&nomad.TaskArtifact{GetterSource: "hg::" + url + "/a.txt", RelativeDest: "local/one", GetterMode: "file"})
	h.has("local/one", "second")
	h.refused(&nomad.TaskArtifact{GetterSource: "hg::" + url + "?rev=absent", RelativeDest: "local/none"}, "unknown revision")
}

// Links stay inside of the repository, and a server cannot redirect to the metadata of a cloud.
func TestHgHostile(t *testing.T) {
	r := newHgRepo(t)
	r.commit(map[string]string{"a": "a", "link": "-> /etc/passwd"})
	h := newHarness(t, config())
	h.refused(&nomad.TaskArtifact{GetterSource: "hg::" + r.serve(), RelativeDest: "local/links"}, `the link "link" leads to`)

	to := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	}})
	h.refused(&nomad.TaskArtifact{GetterSource: "hg::" + to + "/repo", RelativeDest: "local/redirect"},
		"connection to 169.254.169.254 refused: link-local address")
}

// Subrepositories use the same protocols as sources. A path of the node is not one.
func TestHgSubrepositories(t *testing.T) {
	inner := newHgRepo(t)
	inner.commit(map[string]string{"b": "b"})
	if err := os.Chmod(inner.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	outer := func(source string) string {
		r := newHgRepo(t)
		r.hg("clone", inner.dir, "sub")
		r.commit(map[string]string{".hgsub": "sub = " + source + "\n", "a": "a"})
		return "hg::" + r.serve()
	}
	h := newHarness(t, config())
	h.gets(&nomad.TaskArtifact{GetterSource: outer(inner.serve()), RelativeDest: "local/http"})
	h.has("local/http/sub/b", "b")
	h.refused(&nomad.TaskArtifact{GetterSource: outer(inner.dir), RelativeDest: "local/path"}, "not found")
}
