package getter

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	gogetter "github.com/hashicorp/go-getter"

	"github.com/open-nomad/open-nomad/internal/fetch"
	"github.com/open-nomad/open-nomad/internal/pattern"
)

// gitConfig is the only configuration of git, apart from that of the new repository.
var gitConfig = [][2]string{
	{"core.hooksPath", os.DevNull},
	{"core.fsmonitor", "false"},
	{"core.attributesFile", os.DevNull},
	{"core.excludesFile", os.DevNull},
	{"core.protectHFS", "true"},
	{"core.protectNTFS", "true"},
	{"credential.helper", ""},
	{"protocol.allow", "never"}, // GIT_ALLOW_PROTOCOL lists the exceptions
	{"gc.auto", "0"},
	{"maintenance.auto", "false"}, // no processes in the background
	{"advice.detachedHead", "false"},
}

// sshCommand runs ssh without the configuration of the node and without questions. The known hosts are
// those of the node.
const sshCommand = "ssh -F none -o BatchMode=yes -o UserKnownHostsFile=none"

// vcsEnvironment returns the variables for git and hg. They take precedence over those that the operator
// allows.
func vcsEnvironment(work string) map[string]string {
	env := map[string]string{
		"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": os.DevNull, "GIT_CONFIG_GLOBAL": os.DevNull, "GIT_ATTR_NOSYSTEM": "1",
		"GIT_TEMPLATE_DIR": "", "GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": "",
		"GIT_ALLOW_PROTOCOL": "http:https:ssh:git", "GIT_PROTOCOL_FROM_USER": "0", "GIT_SSH_COMMAND": sshCommand, "GIT_SSH_VARIANT": "ssh",
		"GIT_CEILING_DIRECTORIES": work, "XDG_CONFIG_HOME": filepath.Join(work, fetch.HomeName),
		"GIT_AUTHOR_NAME": "fetch", "GIT_AUTHOR_EMAIL": "fetch@localhost", "GIT_COMMITTER_NAME": "fetch",
		"GIT_COMMITTER_EMAIL": "fetch@localhost",
		"HGRCPATH":            "", "HGPLAIN": "+strictflags", "LC_ALL": "C",
		"GIT_CONFIG_COUNT": strconv.Itoa(len(gitConfig)),
	}
	for i, c := range gitConfig {
		env[fmt.Sprint("GIT_CONFIG_KEY_", i)], env[fmt.Sprint("GIT_CONFIG_VALUE_", i)] = c[0], c[1]
	}
	return env
}

// setVCSEnvironment sets the variables for git and hg. No repository above work is used.
func setVCSEnvironment(work string) error {
	for name, value := range vcsEnvironment(work) {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// useProxyAlways makes Mercurial use the proxy for loopback addresses too.
func useProxyAlways(home string) error {
	file := filepath.Join(home, "hgrc")
	if err := os.WriteFile(file, []byte("[http_proxy]\nalways = True\n"), 0o600); err != nil {
		return err
	}
	return os.Setenv("HGRCPATH", file)
}

// plainPath matches paths that a shell reads as one word. The library passes the path of an SSH key to
// git in a command line.
var plainPath = pattern.Lazy(`^[A-Za-z0-9/._-]+$`)

// checkVCS refuses what could become an argument of git, hg or ssh.
func checkVCS(s fetch.Source, temp string) error {
	for _, option := range []string{"ref", "rev"} {
		v := s.Option(option)
		if strings.HasPrefix(v, "-") || strings.ContainsFunc(v, unicode.IsControl) {
			return fmt.Errorf("option %s is %q: it must not begin with - or contain control characters", option, v)
		}
	}
	if d := s.Option("depth"); d != "" {
		if n, err := strconv.ParseUint(d, 10, 31); err != nil || n == 0 {
			return fmt.Errorf("option depth is %q: use an integer of 1 or more", d)
		}
	}
	if strings.HasPrefix(s.Host(), "-") {
		return fmt.Errorf("host %q begins with -", s.Host())
	}
	if s.Option("sshkey") != "" && !plainPath().MatchString(temp) {
		return fmt.Errorf("option sshkey cannot be used: the path %q of the task contains characters that a shell would interpret", temp)
	}
	return nil
}

// vcs downloads with git or hg. In mode "file", it replaces the library's copy, which follows links out of
// the repository.
type vcs struct{ gogetter.Getter }

func (v *vcs) GetFile(dst string, u *url.URL) error {
	repo, err := os.MkdirTemp("", "repository")
	if err != nil {
		return err
	}
	defer os.RemoveAll(repo) //nolint:errcheck // the client removes the directory above
	name := path.Base(u.Path)
	of := *u
	of.Path, of.RawPath = path.Dir(u.Path), ""
	if err := v.Get(filepath.Join(repo, "work"), &of); err != nil {
		return err
	}
	return copyFrom(filepath.Join(repo, "work"), name, dst)
}

// copyFrom copies a regular file that is directly in the directory.
func copyFrom(dir, name, dst string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%q of the repository is not a regular file", name)
	}
	from, err := root.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		to.Close() // the error of the copy is returned
		return err
	}
	return to.Close()
}
