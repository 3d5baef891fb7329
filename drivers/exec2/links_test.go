package exec2_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/internal/testkernel"
	"github.com/open-nomad/open-nomad/internal/testpace"
	"github.com/open-nomad/open-nomad/internal/testrename"
)

// groundVariable passes the directory of linkGround to the test that runs as an ordinary user.
const groundVariable = "NOMAD_TEST_LINKS"

// linkGround makes a directory of root with links of several users:
//
//	private/canary   a file that only the agent's user can read
//	public/file      a file of root
//	root             a link of root to public
//	other/link       a link of another ordinary user to private
//	agent/link       a link of the agent's user to public
//	other/swapped    a directory or a link to private: swap exchanges it with other/spare
func linkGround(t *testing.T, agent int) string {
	t.Helper()
	const other = 88123
	dir := testtask.OpenDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	var errs []error
	for name, owner := range map[string]int{"private": agent, "public": 0, "other": other, "agent": agent} {
		errs = append(errs, os.Mkdir(at(name), 0o755), os.Chown(at(name), owner, owner))
	}
	errs = append(errs, os.WriteFile(at("private/canary"), []byte("canary\n"), 0o600), os.Chown(at("private/canary"), agent, agent),
		os.WriteFile(at("public/file"), []byte("public\n"), 0o644), os.Symlink(at("public"), at("root")),
		os.Symlink(at("private"), at("other/link")), os.Lchown(at("other/link"), other, other),
		os.Symlink(at("public"), at("agent/link")), os.Lchown(at("agent/link"), agent, agent), os.Chmod(at("private"), 0o700),
		os.Mkdir(at("other/swapped"), 0o755), os.Symlink(at("private"), at("other/spare")), os.Lchown(at("other/spare"), other, other))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A task of an agent without root gets no access through a link of another ordinary user. Links of
// root are followed, for the task and its sessions.
func TestUnprivilegedLinks(t *testing.T) { unprivilegedLinks(t, testkernel.Kernel{}) }

// TestUnprivilegedAloneLinks is the same without user namespaces.
func TestUnprivilegedAloneLinks(t *testing.T) {
	unprivilegedLinks(t, testkernel.Kernel{NoUserNamespaces: true})
}

func unprivilegedLinks(t *testing.T, k testkernel.Kernel) {
	t.Helper()
	testpace.Slow(t, "runs another agent as its user")
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABIScopes {
		t.Skipf("needs Landlock ABI %d: have %d, %v", landlock.ABIScopes, abi, err)
	}
	if os.Geteuid() == 0 {
		for _, uid := range []int{nobodyUID, 88124} {
			dir := linkGround(t, uid)
			k.Env = []string{groundVariable + "=" + dir}
			end := testrename.Exchange(filepath.Join(dir, "other/swapped"), filepath.Join(dir, "other/spare"))
			k.Rerun(t, uid, "")
			end()
		}
		return
	}
	dir := os.Getenv(groundVariable)
	f := fixtureAt(t, settings{"allow_unprivileged": cty.True})
	for path, want := range map[string]string{
		"private/canary": "canary\n", "root/file": "public\n", "other/link/canary": "", "other/link": "", "agent/link/file": "",
	} {
		path = filepath.Join(dir, path)
		cfg := f.task("")
		f.config(cfg, "cat", []string{path}, "r:"+path)
		out, err := f.start(cfg)
		if out != want || (err == nil) != (want != "") {
			t.Errorf("unveil r:%s: output %q, %v, want %q", path, out, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "/link is a symbolic link") {
			t.Errorf("unveil r:%s: StartTask() = %v, want an error that names the link", path, err)
		}
	}
	for range 40 { // while root swaps
		path := filepath.Join(dir, "other/swapped")
		cfg := f.task("")
		f.config(cfg, "cat", []string{path + "/canary", dir + "/private/canary"}, "r:"+path)
		if out, err := f.start(cfg); out != "" {
			t.Fatalf("unveil r:%s: output %q, %v, want a refusal or no output", path, out, err)
		}
	}
	cfg, _ := f.living("r:" + dir + "/root/file")
	if code, out, errs := f.session(cfg.ID, "cat "+dir+"/root/file", false); code != 0 || out != "public\n" {
		t.Errorf("a session reads %q, exit %d, %s, want what the task was granted", out, code, errs)
	}
	if err := f.DestroyTask(cfg.ID, true); err != nil {
		t.Error(err)
	}
}
