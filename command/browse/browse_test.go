package browse

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-nomad/open-nomad/api"
)

func TestAddress(t *testing.T) {
	for _, c := range []struct{ agent, want string }{
		{"http://127.0.0.1:4646", "http://127.0.0.1:4646/ui/jobs/a%2Fb%20%3Fc@default/versions"},
		{"https://lb.example/base/", "https://lb.example/ui/jobs/a%2Fb%20%3Fc@default/versions"},
		{"unix:///run/nomad.sock", ""},
	} {
		client, err := api.NewClient(&api.Config{Address: c.agent})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Address(client, Job("a/b ?c", "default", "versions"))
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s: %q, %v, want %q", c.agent, got, err, c.want)
		}
	}
}

// A real program gets the address as its last argument.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "browser")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\" >"+filepath.Join(dir, "opened")+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROWSER", program+" --new-tab")
	if err := Open(t.Context(), "http://x/ui/"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "opened"))
	if err != nil || strings.TrimSpace(string(text)) != "--new-tab http://x/ui/" {
		t.Errorf("the browser got %q, %v", text, err)
	}
	t.Setenv("BROWSER", filepath.Join(dir, "none"))
	if err := Open(t.Context(), "http://x/ui/"); err == nil || !strings.Contains(err.Error(), "Error opening the browser") {
		t.Errorf("a missing browser: %v", err)
	}
	if got := command(func(string) string { return "" }); got != nil {
		t.Errorf("without a desktop: %q", got)
	}
}

// A one-time token of the address is not repeated from the output of the browser.
func TestOpenHidesTheAddress(t *testing.T) {
	program := filepath.Join(t.TempDir(), "browser")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"no method available for opening '$1'\" >&2\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROWSER", program)
	err := Open(t.Context(), "http://x/ui/?ott=canary")
	if err == nil || strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "no method available") {
		t.Errorf("Open() = %v", err)
	}
}
