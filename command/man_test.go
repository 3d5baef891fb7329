package command

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestManPages checks that each command has a page, and that mandoc and groff render all without a warning.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	if err := WriteManPages(dir, time.Unix(1764000000, 0).UTC()); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, c := range commands() {
		if c.Refused != "" {
			continue
		}
		name := filepath.Join(dir, "nomad-"+strings.ReplaceAll(c.Name, " ", "-")+".1")
		text, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		files = append(files, name)
		for _, f := range ownFlags(c) {
			if want := `.It "\-` + strings.ReplaceAll(f.Name, "-", `\-`); !strings.Contains(string(text), want) {
				t.Errorf("%s has no flag -%s", filepath.Base(name), f.Name)
			}
		}
	}
	files = append(files, filepath.Join(dir, "nomad.1"))
	if found, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(found) != len(files) {
		t.Errorf("%d pages, want %d: %v", len(found), len(files), err)
	}
	for _, renderer := range [][]string{{"mandoc", "-Tlint", "-Wwarning"}, {"groff", "-ww", "-mandoc", "-Tutf8", "-z"}} {
		t.Run(renderer[0], func(t *testing.T) {
			if _, err := exec.LookPath(renderer[0]); err != nil {
				if os.Getenv("NEEDS_MAN") != "" {
					t.Fatal(err)
				}
				t.Skipf("install %s, or set NEEDS_MAN=1 to make its absence an error", renderer[0])
			}
			out, err := exec.Command(renderer[0], append(renderer[1:], files...)...).CombinedOutput()
			if lines := bytes.Split(out, []byte("\n")); err != nil || len(out) > 0 {
				t.Errorf("%s: %v\n%s", renderer[0], err, bytes.Join(lines[:min(20, len(lines))], []byte("\n")))
			}
		})
	}
}

// TestManPageText checks what a page shows to a reader.
func TestManPageText(t *testing.T) {
	if _, err := exec.LookPath("mandoc"); err != nil {
		t.Skip("install mandoc")
	}
	dir := t.TempDir()
	if err := WriteManPages(dir, time.Unix(1764000000, 0).UTC()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"nomad-job-run": {"nomad-job-run – run a new job", "nomad run [options] <path>", "-var=<name=value>",
			"nomad job run -var=count=3 -detach web.nomad.hcl", "November 24, 2025"},
		"nomad-eval-delete": {`nomad eval delete -filter='Status == "pending" and JobID == "example"'`},
		"nomad":             {"nomad-job-run(1)", "-tls-skip-verify", "NOMAD_ADDR", "127"},
	} {
		out, err := exec.Command("mandoc", "-Tutf8", "-O", "width=200", filepath.Join(dir, name+".1")).Output()
		if err != nil {
			t.Fatal(err)
		}
		text := overstruck(string(out))
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s does not show %q:\n%s", name, w, text)
			}
		}
	}
}

// overstruck removes the characters that a terminal page prints twice for bold or underlined text.
func overstruck(text string) string {
	var out []rune
	for _, r := range text {
		if r == '\b' && len(out) > 0 {
			out = out[:len(out)-1]
			continue
		}
		out = append(out, r)
	}
	return string(out)
}
