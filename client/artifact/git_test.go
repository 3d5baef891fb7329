package artifact_test

import (
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/nomad"
)

// repos is a server of Git repositories, with the directory of their working copies.
type repos struct {
	t   *testing.T
	dir string
	url string
}

// newRepos starts a server with git's own backend.
func newRepos(t *testing.T) *repos {
	t.Helper()
	testpace.Slow(t, "starts git many times")
	r := &repos{t: t, dir: t.TempDir()}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	backend := strings.TrimSpace(r.git("", "--exec-path")) + "/git-http-backend"
	if _, err := os.Stat(backend); err != nil {
		t.Skip("needs git http-backend")
	}
	s := httptest.NewServer(&cgi.Handler{Path: backend, Root: "/", Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + r.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory",
			"GIT_CONFIG_VALUE_0=*"}})
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// git runs git in a working copy.
func (r *repos) git(repo string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = filepath.Join(r.dir, repo)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

// add makes a repository with files. A text that begins with "-> " is the target of a link.
func (r *repos) add(repo string, files map[string]string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Join(r.dir, repo), 0o755); err != nil {
		r.t.Fatal(err)
	}
	r.git(repo, "init", "-q", "-b", "main")
	r.commit(repo, files)
}

func (r *repos) commit(repo string, files map[string]string) {
	r.t.Helper()
	for name, text := range files {
		at := filepath.Join(r.dir, repo, name)
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
	r.git(repo, "add", "-A", "-f")
	r.git(repo, "commit", "-q", "-m", "change")
}

func (r *repos) source(repo string) string { return "git::" + r.url + "/" + repo + "/.git" }

func TestGit(t *testing.T) {
	r := newRepos(t)
	r.add("app", map[string]string{"file": "one", "sub/x": "x", "bin": "-> sub/x", "sub/up": "-> ../file"})
	r.git("app", "tag", "v1")
	first := strings.TrimSpace(r.git("app", "rev-parse", "HEAD"))
	r.commit("app", map[string]string{"file": "two"})
	r.git("app", "checkout", "-q", "-b", "side")
	r.commit("app", map[string]string{"file": "three"})
	r.git("app", "checkout", "-q", "main")
	h := newHarness(t, config())
	for source, want := range map[string]string{
		r.source("app"): "two", r.source("app") + "?ref=v1": "one", r.source("app") + "?ref=side": "three",
		r.source("app") + "?ref=" + first: "one",
		r.source("app") + "?depth=1":      "two", r.source("app") + "?depth=1&ref=side": "three",
	} {
		if err := os.RemoveAll(filepath.Join(h.local, "app")); err != nil {
			t.Fatal(err)
		}
		res := h.gets(&nomad.TaskArtifact{GetterSource: source, RelativeDest: "local/app"})
		h.has("local/app/file", want)
		h.has("local/app/bin", "x")
		h.has("local/app/sub/up", want)
		if res.Digest != "" || res.Name != "local/app" {
			t.Errorf("%s: result %+v", source, res)
		}
		hooks, err := filepath.Glob(filepath.Join(h.local, "app/.git/hooks/*"))
		if err != nil || len(hooks) > 0 {
			t.Errorf("%s: hooks %v, %v", source, hooks, err)
		}
	}
	h.gets(&nomad.TaskArtifact{GetterSource: r.source("app") + "/file", GetterMode: "file", RelativeDest: "local/one"})
	h.has("local/one", "two")
	h.gets(&nomad.TaskArtifact{GetterSource: r.source("app"), RelativeDest: "local/app"}) // over the existing one
	h.has("local/app/file", "two")
}

// An argument of git, hg or ssh cannot come from a source.
func TestGitArguments(t *testing.T) {
	r := newRepos(t)
	r.add("app", map[string]string{"file": "one"})
	h := newHarness(t, config())
	marker := filepath.Join(h.local, "executed")
	for source, want := range map[string]string{
		r.source("app") + "?ref=--upload-pack=touch%20" + marker:       "must not begin with -",
		r.source("app") + "?ref=-c&depth=1":                            "must not begin with -",
		r.source("app") + "?ref=a%0Ab":                                 "control characters",
		r.source("app") + "?depth=-1":                                  "option depth",
		r.source("app") + "?depth=1%20--upload-pack=x":                 "option depth",
		"git::ssh://-oProxyCommand=touch/x":                            `host "-oProxyCommand`,
		"git::ssh://git@-oProxyCommand=x/x":                            `host "-oProxyCommand=x"`,
		"git::ext::sh -c touch% " + marker:                             `scheme "ext"`,
		"git::--upload-pack=touch " + marker:                           "local files are not supported",
		"git::file://" + r.dir + "/app":                                "local files are not supported",
		"git::" + r.dir + "/app":                                       "local files are not supported",
		"hg::http://127.0.0.1:1/x?rev=--config=alias.update=!touch":    "must not begin with -",
		"hg::ssh://-oProxyCommand=x/x":                                 `host "-oProxyCommand=x"`,
		"hg::file:///x":                                                "local files are not supported",
		r.source("app") + "?ref=HEAD^{/x}$(touch%20" + marker + ")":    "invalid ref",
		r.source("app") + "?ref=%3Btouch%20" + marker:                  "invalid ref",
		strings.Replace(r.source("app"), "/app", "/;touch "+marker, 1): "git exited with",
		r.source("app") + "?ref=main&sshkey=bm90IGEga2V5":              "",
	} {
		if want == "" {
			h.gets(&nomad.TaskArtifact{GetterSource: source})
			continue
		}
		h.refused(&nomad.TaskArtifact{GetterSource: source}, want)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a command of a source was executed")
	}
}

// No configuration, hook, template or filter is used, even if the operator allows variables that name one.
func TestGitConfiguration(t *testing.T) {
	r := newRepos(t)
	h := newHarness(t, config())
	base := filepath.Join(h.local, "operator") // the program sees no other directory of the test
	marker := filepath.Join(base, "executed")
	hook := "#!/bin/sh\ntouch " + marker + "\n"
	files := map[string]string{
		"hooks/post-checkout": hook, "templates/hooks/post-checkout": hook,
		"templates/config": "[core]\n\tfsmonitor = \"touch " + marker + "\"\n",
		"gitconfig": "[core]\n\thooksPath = " + base + "/hooks\n\tsshCommand = touch " + marker + "\n[init]\n\ttemplateDir = " + base +
			"/templates\n[filter \"x\"]\n\tsmudge = touch " + marker + "\n\tclean = cat\n",
		".gitconfig":     "[core]\n\thooksPath = " + base + "/hooks\n",
		"home/.netrc":    "machine 127.0.0.1 login netrc password netrc\n",
		"xdg/git/config": "[core]\n\thooksPath = " + base + "/hooks\n",
	}
	for name, text := range files {
		at := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(base, 0o777); err != nil {
		t.Fatal(err)
	}
	cfg := config()
	cfg.Env = map[string]string{"GIT_CONFIG_GLOBAL": base + "/gitconfig", "GIT_CONFIG_SYSTEM": base + "/gitconfig",
		"GIT_TEMPLATE_DIR": base + "/templates", "XDG_CONFIG_HOME": base + "/xdg",
		"HOME": base, "GIT_SSH_COMMAND": "touch " + marker, "GIT_CONFIG_NOSYSTEM": "0"}
	cfg.Unconfined = true // Landlock would hide the mistake
	h.Fetcher = fetcher(t, cfg)
	r.add("app", map[string]string{"file": "one", ".gitattributes": "* filter=x\n", "hooks/post-checkout": hook})
	h.gets(&nomad.TaskArtifact{GetterSource: r.source("app"), RelativeDest: "local/app"})
	h.refused(&nomad.TaskArtifact{GetterSource: "git::ssh://git@127.0.0.1:1/x"}, "git exited with")
	if _, err := os.Stat(marker); err == nil {
		t.Error("a program of a configuration was executed")
	}
	if got := h.runs[0].Env["HOME"]; !strings.HasPrefix(got, h.task.Dir.Path()) {
		t.Errorf("HOME = %s", got)
	}
}

// An archive that brings a .git directory does not influence a later download to the same place.
func TestGitOverArchive(t *testing.T) {
	r := newRepos(t)
	h := newHarness(t, config())
	marker := filepath.Join(h.local, "executed")
	hook := "#!/bin/sh\ntouch " + marker + "\n"
	r.add("app", map[string]string{"file": "one"})
	url := serve(t, map[string]http.HandlerFunc{"/evil.tar": content(tarOf(t, []entry{
		{name: ".git/hooks/post-checkout", text: hook, mode: 0o755}, {name: ".git/HEAD", text: "ref: refs/heads/main\n"},
		{name: ".git/config", text: "[include]\n\tpath = /etc/passwd\n[core]\n\tfsmonitor = \"touch " + marker +
			"\"\n\trepositoryformatversion = 0\n"},
	}))})
	h.gets(&nomad.TaskArtifact{GetterSource: url + "/evil.tar", RelativeDest: "local/app"})
	h.gets(&nomad.TaskArtifact{GetterSource: r.source("app"), RelativeDest: "local/app"})
	h.has("local/app/file", "one")
	if _, err := os.Stat(marker); err == nil {
		t.Error("a program of the archive was executed")
	}
	config, err := os.ReadFile(filepath.Join(h.local, "app/.git/config"))
	if err != nil || strings.Contains(string(config), "fsmonitor") || strings.Contains(string(config), "include") {
		t.Errorf("config of the repository: %s, %v", config, err)
	}
}

// Links of a repository stay inside of it.
func TestGitLinks(t *testing.T) {
	r := newRepos(t)
	h := newHarness(t, config())
	for name, files := range map[string]map[string]string{
		"absolute": {"link": "-> /etc/passwd"}, "up": {"link": "-> ../x"}, "deep": {"a/b/link": "-> ../../../x"}, "root": {"a/link": "-> ../.."},
		"chain": {"self": "-> .", "link": "-> self/../x"}, "long": {"a/self": "-> .", "a/link": "-> self/self/../../x"},
	} {
		r.add(name, files)
		h.refused(&nomad.TaskArtifact{GetterSource: r.source(name)}, "leads to")
	}
	r.add("names", map[string]string{"a\nb": "x"})
	h.refused(&nomad.TaskArtifact{GetterSource: r.source("names")}, "control character")
	r.add("subdir", map[string]string{"etc": "-> /etc", "sub/passwd": "-> /etc/passwd", "passwd": "-> /etc/passwd"})
	h.refused(&nomad.TaskArtifact{GetterSource: r.source("subdir") + "//etc"}, "copying of symlinks has been disabled")
	h.refused(&nomad.TaskArtifact{GetterSource: r.source("subdir") + "//etc/ssl"}, "copying of symlinks has been disabled")
	h.refused(&nomad.TaskArtifact{GetterSource: r.source("subdir") + "//sub"}, "copying of symlinks has been disabled")
	h.refused(&nomad.TaskArtifact{GetterSource: r.source("subdir") + "/passwd", GetterMode: "file", RelativeDest: "local/x"},
		"not a regular file")
	cfg := config()
	cfg.KeepLinks = true
	newHarness(t, cfg).gets(&nomad.TaskArtifact{GetterSource: r.source("absolute")})
}

func TestGitSubmodules(t *testing.T) {
	r := newRepos(t)
	h := newHarness(t, config())
	marker := filepath.Join(h.local, "executed")
	r.add("part", map[string]string{"part": "part"})
	commit := strings.TrimSpace(r.git("part", "rev-parse", "HEAD"))
	for name, c := range map[string]struct{ modules, want string }{
		"relative": {"url = ../../part/.git", ""},
		"http":     {"url = " + r.url + "/part/.git", ""},
		"file":     {"url = file://" + r.dir + "/part", "transport 'file' not allowed"},
		"local":    {"url = " + r.dir + "/part", "git exited with"},
		"ext":      {"url = ext::sh -c touch% " + marker, "transport 'ext' not allowed"},
		"metadata": {"url = http://169.254.169.254/x", "connection to 169.254.169.254 refused: link-local address"},
		"command":  {"url = " + r.url + "/part/.git\n\tupdate = !touch " + marker, "invalid value for"},
		"dash":     {"url = -u./touch", "git exited with"},
	} {
		r.add(name, map[string]string{".gitmodules": "[submodule \"part\"]\n\tpath = part\n\t" + c.modules + "\n"})
		r.git(name, "update-index", "--add", "--cacheinfo", "160000,"+commit+",part")
		r.git(name, "commit", "-q", "-m", "submodule")
		a := &nomad.TaskArtifact{GetterSource: "git::" + r.url + "/" + name + "/.git", RelativeDest: "local/" + name}
		if c.want == "" {
			h.gets(a)
			h.has("local/"+name+"/part/part", "part")
			continue
		}
		h.refused(a, c.want)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a command of a submodule was executed")
	}
}

// Git is redirected, or sent to other places of objects, by its server.
func TestGitServer(t *testing.T) {
	r := newRepos(t)
	h := newHarness(t, config())
	redirect := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, "http://169.254.169.254"+req.URL.Path+"?"+req.URL.RawQuery, http.StatusFound)
	}})
	h.refused(&nomad.TaskArtifact{GetterSource: "git::" + redirect + "/x"}, "connection to 169.254.169.254 refused: link-local address")
	h.refused(&nomad.TaskArtifact{GetterSource: "git::http://169.254.169.254/x"}, "connection to 169.254.169.254 refused: link-local address")

	r.add("secret", map[string]string{"secret": "secret"})
	head := strings.TrimSpace(r.git("secret", "rev-parse", "HEAD"))
	for kind, alternates := range map[string]string{
		"local": r.dir + "/secret/.git/objects\n", "metadata": "http://169.254.169.254/objects\n",
		"file": "file://" + r.dir + "/secret/.git/objects\n",
	} {
		url := serve(t, map[string]http.HandlerFunc{
			"/repo/info/refs":                    content(head + "\trefs/heads/main\n"),
			"/repo/HEAD":                         content("ref: refs/heads/main\n"),
			"/repo/objects/info/alternates":      content(alternates),
			"/repo/objects/info/http-alternates": content(alternates),
		})
		r := h.get(&nomad.TaskArtifact{GetterSource: "git::" + url + "/repo", RelativeDest: "local/" + kind})
		if r.Err == nil {
			t.Errorf("a repository with alternates of kind %s is complete", kind)
		}
		if _, err := os.Stat(filepath.Join(h.local, kind)); err == nil {
			t.Errorf("a repository with alternates of kind %s arrives", kind)
		}
	}
}
