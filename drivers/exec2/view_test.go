package exec2_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// TestOwnAllocation checks that a task sees its own allocation, with the other tasks in it, but no
// other allocation unless it is granted. The same holds for its sessions.
func TestOwnAllocation(t *testing.T) {
	f := newFixture(t, nil)
	other, _ := f.living()
	if err := os.WriteFile(filepath.Join(other.SharedDir, "file"), []byte("other's\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	script := "echo " + f.dir + "/*; cat " + other.SharedDir +
		"/file; cat local/mine ../alloc/of-all /tmp/own; echo mine >local/new && ln local/new ../alloc/hard && cat ../alloc/hard"
	lay := func(cfg *drivers.TaskConfig) {
		for name, text := range map[string]string{"web/local/mine": "local\n", "alloc/of-all": "shared\n", "web/tmp/own": "tmp\n"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(cfg.AllocDir, name)), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(cfg.AllocDir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tt := range map[string]struct {
		unveil []string
		want   string
	}{
		"nothing more":        {nil, f.dir + "/*\n"},
		"all":                 {[]string{"rwxc:/"}, f.dir + "/*\n"},
		"a file of another's": {[]string{"r:" + other.SharedDir + "/file"}, f.dir + "/*\nother's\n"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := f.task("")
			f.config(cfg, "sh", []string{"-c", script}, tt.unveil...)
			lay(cfg)
			got := f.run(cfg)
			if want := tt.want + "local\nshared\ntmp\nmine\n"; got.Stdout != want {
				t.Errorf("stdout = %q, want %q; stderr: %s", got.Stdout, want, got.Stderr)
			}
		})
	}
	// The whole directory, as for a log collector.
	cfg := f.task("")
	f.config(cfg, "sh", []string{"-c", "cat " + other.SharedDir + "/file"}, "r:"+f.dir)
	f.run(cfg).Want(t, 0, "other's\n")
}

// TestOwnAllocationBeside checks that a session sees the same as its task, including later files.
// The same holds for a session of a later agent.
func TestOwnAllocationBeside(t *testing.T) {
	f := newFixture(t, nil)
	other, _ := f.living()
	cfg := f.task("")
	f.config(cfg, "sleep", []string{"1000"}, "r:/")
	h, err := f.StartTask(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	again := f.nextAgent()
	if err := again.RecoverTask(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]*fixture{"first agent": f, "second agent": again} {
		if err := os.WriteFile(filepath.Join(cfg.SecretsDir, "late"), []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
		code, out, errs := at.session(cfg.ID, "cat secrets/late; echo; ls "+other.AllocDir, false)
		if code == 0 || out != name+"\n" || !strings.Contains(errs, "No such file") {
			t.Errorf("%s: a session prints %q, %q, %d", name, out, errs, code)
		}
	}
	status, err := f.InspectTask(cfg.ID)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/" + status.Attributes["pid"] + "/mountinfo")
	if err != nil || !strings.Contains(string(text), " "+filepath.Dir(f.dir)+" ro,") {
		t.Errorf("no mount over %s, %v:\n%s", f.dir, err, text)
	}
}
