package sandbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/internal/sandbox"
	"github.com/open-nomad/open-nomad/internal/testpace"
)

// neighbours returns a directory with two subdirectories: the program's own, with a tmpfs in it,
// and a world-writable one of another program.
func neighbours(t *testing.T) (dir string, p *places) {
	t.Helper()
	p = newPlaces(t)
	dir = p.alloc
	p.alloc = mkdir(t, filepath.Join(dir, "mine"))
	p.task, p.tmp = mkdir(t, filepath.Join(p.alloc, "web")), mkdir(t, filepath.Join(p.alloc, "web/tmp"))
	mountMemory(t, filepath.Join(p.task, "secrets"))
	write(t, filepath.Join(p.task, "secrets/token"), "before\n")
	mountMemory(t, filepath.Join(mkdir(t, filepath.Join(dir, "other")), "secrets"))
	write(t, filepath.Join(dir, "other/secrets/token"), "foreign\n")
	write(t, filepath.Join(dir, "other/file"), "foreign\n")
	return dir, p
}

// TestView checks that a program sees only its own part of a shared directory, with its mounts and
// the grants by name. It cannot write anywhere else.
func TestView(t *testing.T) {
	dir, p := neighbours(t)
	linked := dir + "-link"
	if err := os.Symlink(dir, linked); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(linked) })
	script := fmt.Sprintf(`cat secrets/token; echo mine >made && mv made tmp/moved && ln tmp/moved hard && cat hard
		echo %[1]s/*; cat %[1]s/other/file %[1]s/other/secrets/token; (: >%[1]s/new) ; mkdir %[1]s/other`, dir)
	for name, tt := range map[string]struct {
		dir     string // of the view
		granted []sandbox.Path
		want    string
	}{
		"alone":                        {dir, nil, dir + "/*\n"},
		"by a link":                    {linked, nil, dir + "/*\n"},
		"granted a file":               {dir, []sandbox.Path{{Modes: "r", Name: dir + "/other/file"}}, dir + "/*\nforeign\n"},
		"granted it by its other name": {linked, []sandbox.Path{{Modes: "r", Name: dir + "/other/file"}}, dir + "/*\nforeign\n"},
		"granted the directory": {dir, []sandbox.Path{{Modes: "r", Name: dir}}, dir + "/mine " + dir + "/other " + dir +
			"/web\nforeign\nforeign\n"},
		"granted what is around it":  {dir, []sandbox.Path{{Modes: "r", Name: filepath.Dir(dir)}}, dir + "/*\n"},
		"granted what is around all": {dir, []sandbox.Path{{Modes: "rwxc", Name: "/"}}, dir + "/*\n"},
	} {
		t.Run(name, func(t *testing.T) {
			policy := p.policy(&sandbox.Mounts{View: sandbox.View{Dir: tt.dir, Own: "mine"}, Proc: true})
			policy.Files = &sandbox.Files{Paths: append([]sandbox.Path{{Modes: "rwxc", Name: "mine/web", Beneath: dir},
				{Modes: "rx", Name: "/usr"}, {Modes: "rx", Name: "/bin"}, {Modes: "rx", Name: "/lib"}, {Modes: "rx", Name: "/lib64"},
				{Modes: "rw", Name: "/dev/null"}}, tt.granted...)}
			r := runPolicy(t, policy, "exec 2>/dev/null; rm -f hard; "+script)
			if want := "before\nmine\n" + tt.want; r.reason != "" || r.out != want {
				t.Errorf("program = %+v, want %q", r, want)
			}
			// The same with a private /tmp, to which the view is moved.
			policy.Mounts.Tmp = sandbox.Path{Name: "mine/web/tmp", Beneath: dir}
			tried := strings.Replace(script, "mv made tmp/moved && ln tmp/moved hard", "ln made hard", 1)
			r = runPolicy(t, policy, "exec 2>/dev/null; rm -f hard; "+tried)
			if want := "before\nmine\n" + tt.want; r.reason != "" || r.out != want {
				t.Errorf("program with a /tmp = %+v, want %q", r, want)
			}
		})
	}
	for _, left := range []string{"new", "mine/new"} {
		if _, err := os.Lstat(filepath.Join(dir, left)); err == nil {
			t.Errorf("%s was made", left)
		}
	}
}

// TestViewIsShared checks that writes of the host reach the running program and vice versa, also in
// a tmpfs. A later mount does not.
func TestViewIsShared(t *testing.T) {
	dir, p := neighbours(t)
	policy := p.policy(&sandbox.Mounts{View: sandbox.View{Dir: dir, Own: "mine"}, Proc: true,
		Tmp: sandbox.Path{Name: "mine/web/tmp", Beneath: dir}})
	done := make(chan ran)
	go func() {
		done <- runPolicy(t, policy, `echo up >secrets/up; until [ -s secrets/go ]; do sleep 0.01; done; cat secrets/token secrets/late/*`)
	}()
	token := filepath.Join(p.task, "secrets/token")
	testpace.Until(t, "the program is up", func() bool {
		st, err := os.Stat(filepath.Join(p.task, "secrets/up"))
		return err == nil && st.Size() > 0
	})
	write(t, token, "renewed\n")
	mountMemory(t, filepath.Join(p.task, "secrets/late"))
	write(t, filepath.Join(p.task, "secrets/late/file"), "late")
	write(t, filepath.Join(p.task, "secrets/go"), "go")
	r := <-done
	if !strings.HasPrefix(r.out, "renewed\n") || strings.Contains(r.out, "\nlate") {
		t.Errorf("program = %+v, want the renewed token only", r)
	}
}
