package testkernel

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Rerun runs the same test as an ordinary user under k. It uses a copy of the test's program that
// the user can read, and a home directory, which also holds temporary files. With group, a
// directory of the version 2 tree, the process starts in that control group. A failed or skipped
// run is an error. Only root can do this.
func (k Kernel) Rerun(t *testing.T, uid int, group string) {
	t.Helper()
	bin, home := room(t, uid)
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin, "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=3m")
	cmd.Dir, cmd.Stdout, cmd.Stderr = home, &out, &out
	cmd.Env = append([]string{"TMPDIR=" + home, "HOME=" + home, "PATH=/usr/bin:/bin"}, k.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if group != "" {
		dir, err := os.Open(group)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	if err := k.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || strings.Contains(out.String(), "SKIP") {
		t.Errorf("as uid %d: %v\n%s", uid, err, &out)
	}
}

// room makes the copy of the program and the user's home.
func room(t *testing.T, uid int) (bin, home string) {
	t.Helper()
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	bin, home = filepath.Join(dir, "again.test"), filepath.Join(dir, "home")
	if err := os.WriteFile(bin, program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(home, uid, uid); err != nil {
		t.Fatal(err)
	}
	return bin, home
}
