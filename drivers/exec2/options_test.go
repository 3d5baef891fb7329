package exec2_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/sys/unix"

	"github.com/open-nomad/open-nomad/drivers/testtask"
	"github.com/open-nomad/open-nomad/internal/landlock"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// refused checks that the start fails with an error that contains each of want.
func (f *fixture) refused(t *testing.T, cfg *drivers.TaskConfig, want ...string) {
	t.Helper()
	_, err := f.StartTask(t.Context(), cfg)
	if err == nil {
		f.wait(cfg)
		t.Fatalf("StartTask() = nil, want an error with %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("StartTask() = %v, want an error with %q", err, w)
		}
	}
}

func TestWorkDir(t *testing.T) {
	f := newFixture(t, nil)
	pwd := func(cfg *drivers.TaskConfig) testtask.Outcome { return f.run(cfg) }
	cfg := sh(f, "pwd")
	pwd(cfg).Want(t, 0, cfg.TaskDir+"\n")
	cfg = sh(f, "pwd")
	pwd(f.set(cfg, map[string]any{"work_dir": cfg.LocalDir + "/"})).Want(t, 0, cfg.LocalDir+"\n")
	granted := filepath.Join(f.dir, "granted")
	testtask.MakeDir(t, granted)
	testtask.MakeDir(t, filepath.Join(granted, "sub"))
	pwd(f.set(sh(f, "pwd; ls"), map[string]any{"work_dir": granted + "/sub", "unveil": []any{"r:" + granted}})).Want(t, 0, granted+"/sub\n")
	f.refused(t, f.set(sh(f, "pwd"), map[string]any{"work_dir": granted + "/sub"}), "work_dir", "not in a path granted")
	f.refused(t, f.set(sh(f, "pwd"), map[string]any{"work_dir": granted + "x", "unveil": []any{"r:" + granted}}), "work_dir",
		"not in a path granted")
	f.refused(t, f.set(sh(f, "pwd"), map[string]any{"work_dir": granted + "/none", "unveil": []any{"r:" + granted}}), "work", granted+
		"/none", "no such file")
}

// TestWorkDirLink has a task replace the working directory of its next start by a link to a
// directory that its user cannot enter.
func TestWorkDirLink(t *testing.T) {
	f := newFixture(t, nil)
	locked, err := os.MkdirTemp("/var/tmp", "exec2-test-") // /tmp is the task's own, where the target would not exist
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(locked)
	testtask.MakeDir(t, filepath.Join(locked, "inner"))
	if err := os.Chmod(locked, 0o700); err != nil {
		t.Fatal(err)
	}
	cfg := sh(f, "pwd -P; ls -la")
	if err := os.Symlink(locked+"/inner", filepath.Join(cfg.LocalDir, "w")); err != nil {
		t.Fatal(err)
	}
	f.refused(t, f.set(cfg, map[string]any{"work_dir": cfg.LocalDir + "/w"}), "permission denied")
}

func TestUlimit(t *testing.T) {
	f := newFixture(t, nil)
	f.run(f.set(sh(f, "ulimit -Sn; ulimit -Hn; ulimit -c; ulimit -Hf"),
		map[string]any{"ulimit": map[string]any{"nofile": "10:200", "fsize": 2048}})).Want(t, 0, "10\n200\n0\n4\n")
	f.run(f.set(sh(f, "ulimit -Sn; ulimit -Sc"), map[string]any{"ulimit": map[string]any{"nofile": "64", "core": "512:1024"}})).Want(t, 0,
		"64\n1\n")
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	f.run(f.set(sh(f, "ulimit -Hn"), map[string]any{"ulimit": map[string]any{"nofile": fmt.Sprintf("64:%d", own.Max)}})).Want(t, 0,
		strconv.FormatUint(own.Max, 10)+"\n")
	f.refused(t, f.set(sh(f, "true"), map[string]any{"ulimit": map[string]any{"nofile": fmt.Sprintf("64:%d", own.Max+1)}}),
		"ulimit: nofile", "above the agent's own hard limit")
}

func TestPIDsLimit(t *testing.T) {
	const fork = "n=0; while [ $n -lt %d ]; do sleep 30 & n=$((n+1)); done; echo all"
	f := newFixture(t, settings{"pids_limit": cty.NumberIntVal(60), "pids_limit_max": cty.NumberIntVal(70)})
	few := f.run(f.set(sh(f, fmt.Sprintf(fork, 40)), map[string]any{"pids_limit": 20}))
	if strings.Contains(few.Stdout, "all") || !strings.Contains(few.Stderr, "fork") {
		t.Errorf("stdout %q, stderr %q: 40 processes were started, the task asked for 20 at most", few.Stdout, few.Stderr)
	}
	f.run(f.set(sh(f, fmt.Sprintf(fork, 64)), map[string]any{"pids_limit": 70})).Want(t, 0, "all")
	f.refused(t, f.set(sh(f, "true"), map[string]any{"pids_limit": 71}), "pids_limit: 71", "pids_limit_max")
	f = newFixture(t, nil)
	f.refused(t, f.set(sh(f, "true"), map[string]any{"pids_limit": 1025}), "pids_limit: 1025 is above the 1024")
}

func TestNetwork(t *testing.T) {
	f := newFixture(t, nil)
	if abi, err := landlock.ABI(); err != nil || abi < landlock.ABITCP {
		f.refused(t, f.set(sh(f, "true"), map[string]any{"network": map[string]any{}}), "network: ")
		return
	}
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	_, port, _ := net.SplitHostPort(open.Addr().String())
	for _, tc := range []struct {
		name    string
		network map[string]any
		probe   []string
		want    string
	}{
		{"connect", map[string]any{"connect": []any{port}}, []string{"connect", port}, "allowed"},
		{"connect to another", map[string]any{"connect": []any{1}}, []string{"connect", port}, "permission denied"},
		{"connect with bind", map[string]any{"bind": []any{port}}, []string{"connect", port}, "permission denied"},
		// Found on Linux 6.18: Landlock does not check this way to connect.
		{"fast open to another", map[string]any{"connect": []any{1}}, []string{"fastopen", port}, "operation not supported"},
		{"listen", map[string]any{"bind": []any{0}}, []string{"listen", "0"}, "allowed"},
		{"listen on another", map[string]any{"bind": []any{1}}, []string{"listen", "0"}, "permission denied"},
		{"nothing", map[string]any{}, []string{"listen", "0"}, "permission denied"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.t = t
			f.run(f.set(f.probeTask(tc.probe...), map[string]any{"network": tc.network})).Want(t, 0, tc.want)
		})
	}
	f.t = t
	f.run(f.probeTask("connect", port)).Want(t, 0, "allowed") // without the block
}

func TestRequireABI(t *testing.T) {
	f := newFixture(t, nil)
	abi, err := landlock.ABI()
	if err != nil {
		t.Fatal(err)
	}
	f.run(f.set(sh(f, "echo ok"), map[string]any{"require_abi": abi})).Want(t, 0, "ok")
	f.refused(t, f.set(sh(f, "true"), map[string]any{"require_abi": abi + 1}), "require_abi", fmt.Sprintf("has %d", abi))
}

// TestUnveil checks paths that cannot be granted.
func TestUnveil(t *testing.T) {
	f := newFixture(t, nil)
	shared := filepath.Join(f.dir, "shared")
	testtask.MakeDir(t, shared)
	secret := filepath.Join(f.dir, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	roots := filepath.Join(testtask.OpenDir(t), "link") // tasks may make links in f.dir
	for _, link := range []string{filepath.Join(shared, "link"), filepath.Join(f.dir, "link"), roots} {
		if err := os.Symlink(secret, link); err != nil {
			t.Fatal(err)
		}
	}
	unveil := func(cfg *drivers.TaskConfig, paths ...any) *drivers.TaskConfig {
		return f.set(cfg, map[string]any{"unveil": paths})
	}
	f.refused(t, unveil(sh(f, "true"), "r:"+f.dir+"/none"), `unveil: "r:`+f.dir+`/none"`, "on this node: no such file")
	cfg := sh(f, "true")
	if err := os.Symlink(secret, filepath.Join(cfg.LocalDir, "link")); err != nil {
		t.Fatal(err)
	}
	f.refused(t, unveil(cfg, "r:"+cfg.LocalDir+"/link"), "unveil", "symbolic link")
	f.refused(t, unveil(sh(f, "true"), "rwc:"+shared, "r:"+shared+"/link"), "unveil", "symbolic link")
	for _, link := range []string{f.dir, shared} {
		f.refused(t, unveil(sh(f, "true"), "r:"+link+"/link"), "symbolic link")
	}
	// Links are followed where root alone can make them.
	f.run(unveil(f.task("/bin/cat", roots), "r:"+roots)).Want(t, 0, "secret")
	testtask.MakeDir(t, filepath.Join(shared, "sub"))
	f.run(unveil(sh(f, "echo x > "+shared+"/sub/f; cat "+shared+"/sub/f"), "rwc:"+shared, "rw:"+shared+"/sub")).Want(t, 0, "x\n")

	node := newFixture(t, settings{"unveil_paths": cty.ListVal([]cty.Value{cty.StringVal("r:/none/at/all")})})
	node.refused(t, sh(node, "true"), "unveil_paths of this node's driver config", `"r:/none/at/all"`)
}

// TestUnveilInVolume grants paths in a volume by their destination. A link in the volume is not
// followed.
func TestUnveilInVolume(t *testing.T) {
	f := newFixture(t, nil)
	data, secret := filepath.Join(f.dir, "data"), filepath.Join(f.dir, "secret")
	testtask.MakeDir(t, data)
	if err := os.WriteFile(filepath.Join(data, "tool"), []byte("#!/bin/sh\necho ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(data, "link")); err != nil {
		t.Fatal(err)
	}
	at, err := os.MkdirTemp("/var/tmp", "exec2-volume-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(at)
	for _, target := range []string{at, "made"} {
		with := func(path, work string) *drivers.TaskConfig {
			cfg := sh(f, "pwd; ./tool")
			if target == "made" {
				path, work = strings.Replace(path, at, cfg.TaskDir+"/made", 1), strings.Replace(work, at, cfg.TaskDir+"/made", 1)
			}
			cfg.Mounts = []drivers.Mount{{TaskPath: work, HostPath: data}}
			return f.set(cfg, map[string]any{"unveil": []any{path}, "work_dir": work})
		}
		f.run(with("rx:"+at+"/tool", at)).Want(t, 0, "ran\n")
		f.refused(t, with("r:"+at+"/none", at), "unveil", "/none", "no such file")
		f.refused(t, with("r:"+at+"/link", at), "unveil", "symbolic link")
	}
}
