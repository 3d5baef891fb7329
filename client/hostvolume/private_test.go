package hostvolume_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/open-nomad/open-nomad/internal/safefs"
	"github.com/open-nomad/open-nomad/internal/testthread"
)

// reaches reports whether a user of the node can open a file, as a setuid program must be.
func reaches(t *testing.T, uid int, file string) bool {
	t.Helper()
	err := error(syscall.EPERM)
	testthread.Run(func() {
		syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0)
		syscall.RawSyscall(syscall.SYS_SETFSGID, uintptr(uid), 0, 0)
		syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(uid), 0, 0)
		var f *os.File
		if f, err = os.Open(file); err == nil {
			f.Close()
		}
	})
	return err == nil
}

// TestOtherUsersCannotReachVolumes checks that a program that a container's root left in a volume is out of reach,
// whatever it did to the mode of the volume, also for volumes of an earlier version of the agent.
func TestOtherUsersCannotReachVolumes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs another uid")
	}
	const nobodyUID, backup = 65534, 34
	w := newWorld(t)
	for _, dir := range []string{filepath.Dir(w.dir), filepath.Dir(filepath.Dir(w.dir))} { // of the test
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	req := mkdirRequest("data", map[string]string{"mode": "0777", "uid": "1234"})
	if _, err := w.create(req); err != nil {
		t.Fatal(err)
	}
	volume := filepath.Join(w.dir, req.ID)
	program := filepath.Join(volume, "program")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"created", "restored"} {
		if reaches(t, nobodyUID, program) {
			t.Errorf("%s: another user reaches the volume", when)
		}
		info, err := os.Stat(volume)
		if err != nil || info.Mode().Perm() != 0o777 || info.Sys().(*syscall.Stat_t).Uid != 1234 {
			t.Errorf("%s: the volume is %v, %v, want the parameters of mkdir", when, info, err)
		}
		if err := os.Chmod(w.dir, 0o711); err != nil { // an earlier version
			t.Fatal(err)
		}
		if !reaches(t, nobodyUID, program) {
			t.Error("the test proves nothing: the modes above do not let the user pass")
		}
		admit(t, w.dir, backup)
		w.restart()
		if err := w.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if !reaches(t, backup, program) {
		t.Error("the access control list of the operator has no effect")
	}
}

func admit(t *testing.T, dir string, uid uint32) {
	t.Helper()
	d, err := safefs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	mode, err := d.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Admit(uid); err != nil {
		t.Skip(err)
	}
	if err := d.Chmod(mode.Mode()); err != nil {
		t.Fatal(err)
	}
}

// TestVolumesBesideOtherFiles checks that a directory that is not only for volumes keeps its mode, with a warning.
func TestVolumesBesideOtherFiles(t *testing.T) {
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Join(w.dir, "shop"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := w.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(w.dir)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the directory is %v, %v, want 0755", info, err)
	}
	wantWarnings(t, w, 1)
}

// TestVolumesOfPlugin checks that the directory is closed which a plugin has made.
func TestVolumesOfPlugin(t *testing.T) {
	w := newWorld(t)
	w.script("other", `[ "$1" = create ] || exit 0; mkdir -p -m 755 "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID"; chmod 755 "$DHV_VOLUMES_DIR"; echo "{\"path\": \"$DHV_VOLUMES_DIR/$DHV_VOLUME_ID\", \"bytes\": 0}"`)
	req := mkdirRequest("data", nil)
	req.PluginID = "other"
	if _, err := w.create(req); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(w.dir)
	if err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("the directory is %v, %v, want 0750", info, err)
	}
	wantWarnings(t, w, 0)
}

func wantWarnings(t *testing.T, w *world, want int) {
	t.Helper()
	if got := strings.Count(w.logged.String(), "other users of the node can reach"); got != want {
		t.Errorf("the log has %d warnings, want %d: %s", got, want, w.logged)
	}
}
