package contextfile

import (
	"os"
	"path/filepath"
	"testing"
)

// The program of a token is found beside the file of contexts or in PATH, never in the current directory,
// which can belong to somebody else.
func TestTokenProgram(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	for in, token := range map[string]string{dir: "right", other: "wrong"} {
		if err := os.WriteFile(filepath.Join(in, "token"), []byte("#!/bin/sh\necho "+token+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(other)
	for _, program := range []string{"./token", filepath.Join(dir, "token")} {
		f, err := parse(filepath.Join(dir, "contexts.hcl"),
			[]byte("context \"a\" {\n  address = \"http://a:1\"\n  token_command = [\""+program+"\"]\n}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := f.Contexts[0].Token(t.Context()); got != "right" || err != nil {
			t.Errorf("the token of %s is %q, %v", program, got, err)
		}
	}
	f, err := parse(filepath.Join(dir, "contexts.hcl"),
		[]byte("context \"a\" {\n  address = \"http://a:1\"\n  token_command = [\"echo\", \"./token\"]\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := f.Contexts[0].Token(t.Context()); got != "./token" || err != nil {
		t.Errorf("an argument became %q, %v", got, err)
	}
}
