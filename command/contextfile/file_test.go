package contextfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestPath(t *testing.T) {
	for _, c := range []struct{ contexts, xdg, home, want string }{
		{"/x/c.hcl", "/xdg", "/home/a", "/x/c.hcl"},
		{"", "/xdg", "/home/a", "/xdg/open-nomad/contexts.hcl"},
		{"", "", "/home/a", "/home/a/.config/open-nomad/contexts.hcl"},
		{"", "", "", ""},
	} {
		env := map[string]string{"NOMAD_CONTEXTS": c.contexts, "XDG_CONFIG_HOME": c.xdg, "HOME": c.home}
		if got := Path(func(name string) string { return env[name] }); got != c.want {
			t.Errorf("Path(%v) = %q, want %q", env, got, c.want)
		}
	}
}

func TestLoadRejects(t *testing.T) {
	block := func(rest string) string { return "context \"a\" {\n  address = \"http://a:1\"\n" + rest + "\n}\n" }
	for _, c := range []struct {
		name, text string
		mode       os.FileMode
		want       string
	}{
		{"group reads", block(""), 0o640, "has mode 0640, so others can use it: run chmod 600"},
		{"world writes", block(""), 0o602, "has mode 0602"},
		{"syntax", "context {", 0o600, "contexts.hcl:1"},
		{"unknown key", block(`  token = "x"`), 0o600, "token"},
		{"no address", "context \"a\" {}", 0o600, "address"},
		{"duplicate", block("") + block(""), 0o600, `duplicate context "a"`},
		{"current", "current = \"b\"\n" + block(""), 0o600, `current is "b", which is not a context of the file: use one of a`},
		{"name", "context \"a b\" {\n address = \"http://a\"\n}", 0o600, `invalid name "a b"`},
		{"scheme", "context \"a\" {\n address = \"ftp://a\"\n}", 0o600, `invalid address "ftp://a"`},
		{"password", "context \"a\" {\n address = \"https://u:topsecret@a\"\n}", 0o600, "must not have a user name or password"},
		{"two tokens", block("  token_file = \"x\"\n  token_command = [\"y\"]"), 0o600, "mutually exclusive"},
		{"half a certificate", block(`  client_cert = "x"`), 0o600, "client_cert and client_key belong together"},
		{"expressions", block("  region = \"${env(\"X\")}\""), 0o600, "Function calls not allowed"},
		{"large", strings.Repeat("# comment\n", 110_000), 0o600, "larger than 1 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "contexts.hcl")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(file, c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := Load(file)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "topsecret") {
				t.Errorf("Load() = %v, want %q", err, c.want)
			}
		})
	}
}

// An edit keeps comments and the other contexts, and leaves the file as it was if the result is invalid.
func TestEdit(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "new", "contexts.hcl")
	set := func(name, attr, value string) error {
		return Edit(file, func(e *Editor) error {
			e.Set(name, map[string]Value{attr: {Text: value}}, []string{attr})
			return nil
		})
	}
	if err := set("a", "address", "http://a:1"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte("# my clusters\n\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := set("b", "address", "nonsense"); err == nil {
		t.Error("an invalid address was written")
	}
	for _, edit := range []func(*Editor) error{
		func(e *Editor) error {
			e.Set("b", map[string]Value{"address": {Text: "http://b:1"}}, []string{"address"})
			return e.Use("b")
		},
		func(e *Editor) error { return e.Delete("a") },
	} {
		if err := Edit(file, edit); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "current = \"b\"\n\n# my clusters\n\n\ncontext \"b\" {\n  address = \"http://b:1\"\n}\n"
	if string(got) != want {
		t.Errorf("file = %q, want %q", got, want)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if err := Edit(file, func(e *Editor) error { return e.Use("a") }); err == nil || !strings.Contains(err.Error(), `no context "a"`) {
		t.Errorf("Use of a deleted context: %v", err)
	}
	if err := Edit(file, func(e *Editor) error { return e.Delete("b") }); err != nil {
		t.Fatal(err)
	}
	if f, err := Load(file); err != nil || f.Current != "" || len(f.Contexts) != 0 {
		t.Errorf("after the last delete: %+v, %v", f, err)
	}
}

// No edit is lost when several processes edit the file, and a link to the file stays.
func TestEditsAtOnce(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "real.hcl"), filepath.Join(dir, "contexts.hcl")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			if err := Edit(link, func(e *Editor) error {
				e.Set(fmt.Sprintf("c%d", i), map[string]Value{"address": {Text: "http://a:1"}}, []string{"address"})
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if f, err := Load(link); err != nil || len(f.Contexts) != 20 {
		t.Errorf("%d contexts, %v, want 20", len(f.Contexts), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
}
